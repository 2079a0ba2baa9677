"""Trains a small translator in processes that are killed and resumed until one of them finishes.

Run as: run_to_be_killed.py FOLDER SEED. For each optimizer it writes the states of an uninterrupted run to
FOLDER/OPTIMIZER/straight and those of the killed ones to FOLDER/OPTIMIZER/killed, and prints the number of
kills. All are forks of this process, so that the libraries are imported once.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # the optimizers need it, and each fork would import it again
from torch import Tensor

from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.training import Feed, StateFolder, Trainer, TrainingConfig, cross_entropy_loss
from clearhead.training.optimizer import AdamConfig, MuonConfig
from clearhead.training.schedule import InverseSquareRootSchedule

VOCABULARY, BATCHES, STEPS = 30, 7, 36


@dataclass(frozen=True)
class Pairs:
    source: Tensor
    target: Tensor
    padding: float = 0.0
    static_shape: bool = False

    @property
    def tokens(self) -> int:
        return self.target[:, 1:].numel()

    def map(self, change: Callable[[Tensor], Tensor]) -> "Pairs":
        return self

    def split(self, count: int) -> "list[Pairs]":
        return [self]


def epoch(number: int, skip: int = 0) -> Iterator[Pairs]:
    for index in range(skip, BATCHES):
        generator = torch.Generator().manual_seed(100 * number + index)
        tokens = torch.randint(4, VOCABULARY, (6, 3 + index), generator=generator)
        yield Pairs(tokens, torch.cat([torch.full((6, 1), 2), tokens.flip(1)], 1))


def loss(model: Translator, batch: Pairs) -> Tensor:
    lengths = torch.full((len(batch.source),), batch.source.shape[1])
    states = model.states(batch.source, Padded(lengths), batch.target[:, :-1])
    return cross_entropy_loss(states, model.readout_weight, batch.target[:, 1:], 0.1)


def train(folder: Path, optimizer: str) -> None:
    torch.manual_seed(4)
    shape = {"width": 16, "ffn_width": 32, "attention": {"heads": 2}, "dropout": 0.1}
    model = Translator(
        TranslatorConfig.model_validate({**shape, "encoder_layers": 1, "decoder_layers": 1}), VOCABULARY
    )
    config = TrainingConfig(
        steps=STEPS,
        optimizer=MuonConfig() if optimizer == "muon" else AdamConfig(),
        schedule=InverseSquareRootSchedule(learning_rate=0.01, warmup=10),
        accumulate=2,
        ema_decay=0.95,
        device="cpu",
    )
    trainer = Trainer(model, loss, config)
    with StateFolder(folder) as states:
        found = states.latest()
        feed = Feed(epoch, **found["position"]) if found else Feed(epoch)
        if found:
            trainer.load_state(found)
        for report in trainer.steps(feed):
            if report.step % 3 == 0 or report.step == STEPS:
                states.save(trainer.state() | {"position": feed.position}, score=report.loss)


def die_in_save(calls: int) -> None:
    """Kills this process at a call of fsync: before or after a file is complete, or renamed."""
    fsync, made = os.fsync, []

    def deadly(handle: int) -> None:
        made.append(handle)
        if len(made) == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = deadly


def attempt(folder: Path, optimizer: str, delay: float = 60.0, calls: int = 0) -> bool:
    """Trains in a new process, killed after a delay or at a call of fsync; returns whether it finished."""
    child = os.fork()
    if not child:
        die_in_save(calls)
        train(folder, optimizer)
        os._exit(0)
    ending = time.monotonic() + delay
    ended, status = 0, 0
    while not ended and time.monotonic() < ending:
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if status and not os.WIFSIGNALED(status):
        raise SystemExit("a process failed by itself")
    return status == 0


def kill_until_the_end(folder: Path, optimizer: str, random_numbers: random.Random) -> int:
    # A save calls fsync four times; the fifth is in the second save.
    kills = sum(not attempt(folder, optimizer, calls=calls) for calls in range(1, 6))
    # Longer with every attempt, so that it finishes even on a busy machine.
    delay = 0.1
    while not attempt(folder, optimizer, delay=random_numbers.uniform(0, delay)):
        kills, delay = kills + 1, delay * 1.2
    return kills


def main(folder: Path, seed: int) -> None:
    torch.set_num_threads(1)
    for optimizer in ("adam", "muon"):
        attempt(folder / optimizer / "straight", optimizer)
        kills = kill_until_the_end(folder / optimizer / "killed", optimizer, random.Random(seed))
        sys.stdout.write(f"{optimizer} {kills}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

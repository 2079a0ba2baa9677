"""Trains with the command line in processes that are killed and resumed until one reaches the end.

Run as: run_to_be_killed.py FOLDER RECIPE SEED. It leaves an uninterrupted run in FOLDER/straight, a killed
and resumed one in FOLDER/killed, and prints the number of kills. All processes are forks of this one, so that
libraries are imported once.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # used by optimizers; otherwise each fork would import it again
import torch.utils.tensorboard  # used by the records
from matplotlib.figure import Figure  # used by the curves

from clearhead.cli import main
from clearhead.tasks import run, sizing

IMPORTED_ONCE = (torch._dynamo, torch.utils.tensorboard, Figure, run, sizing)


def die_at(calls: int) -> None:
    """Kills this process before the given call, counted from 1, that syncs or renames a file."""
    made = []

    def deadly(work):
        def call(*arguments, **named):
            made.append(work)
            if len(made) == calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*arguments, **named)

        return call

    for name in ("fsync", "rename", "replace"):
        setattr(os, name, deadly(getattr(os, name)))


def attempt(out: Path, recipe: str, delay: float = 120.0, calls: int = 0) -> bool:
    """Trains in a new process, killed after a delay or at a call; returns whether it reached the end."""
    started = (out / "config.toml").exists()
    child = os.fork()
    if not child:
        die_at(calls)
        sys.argv = ["clearhead", "train", *(["--resume"] if started else [recipe]), "--out", str(out)]
        try:
            main()
        except SystemExit as ended:
            sys.stderr.flush()
            os._exit(ended.code if isinstance(ended.code, int) else 0)
    ending = time.monotonic() + delay
    ended, status = 0, 0
    while not ended and time.monotonic() < ending:
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if status and not os.WIFSIGNALED(status):
        raise SystemExit(f"a process failed without being killed: {os.waitstatus_to_exitcode(status)}")
    return status == 0


def kill_until_the_end(out: Path, recipe: str, rng: random.Random) -> int:
    # The first dozen calls write settings, tokenizer, token store, held-out pairs, metrics and a state.
    kills = sum(not attempt(out, recipe, calls=calls) for calls in range(1, 13))
    # Longer with every attempt, so that one reaches the end even on a busy machine.
    delay = 0.5
    while not attempt(out, recipe, delay=rng.uniform(0, delay)):
        kills, delay = kills + 1, delay * 1.2
    return kills


def both(folder: Path, recipe: str, seed: int) -> None:
    torch.set_num_threads(1)
    for name in ("straight", "killed"):
        os.environ["CLEARHEAD_CACHE"] = str(folder / f"{name} cache")
        if name == "straight":
            attempt(folder / name, recipe)
        else:
            sys.stdout.write(f"{kill_until_the_end(folder / name, recipe, random.Random(seed))}\n")


if __name__ == "__main__":
    both(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

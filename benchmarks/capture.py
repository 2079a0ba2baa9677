"""The cost of capturing and editing tensors, and that there is none without a capture.

The model in the package is compared with a copy that has no taps: its attentions always take the fused path.
Contestants take turns; the result is the median CPU time over all rounds. On a busy machine small differences
are noise, so the check for a tap, which is all that a model pays without a capture, is also timed alone.

    python benchmarks/capture.py [--model en-de] [--rounds 100] [--tokens 24] [--json FILE]
"""

import argparse
import copy
import json
import statistics
import time
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MethodType

import torch
import torch.nn.functional as F

import clearhead
from clearhead.inspection import Mute, capture, intervene
from clearhead.layers.attention import Attention
from clearhead.layers.layout import Padded
from clearhead.layers.scores import ProductScore
from clearhead.models import Translator

Run = Callable[[Translator], None]
UNTAPPED = "without taps"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--model", default="en-de")
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--tokens", type=int, default=24)
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    model = clearhead.load(given.model).model
    assert isinstance(model, Translator)
    tokens = torch.randint(10, len(model.readout_weight), (1, given.tokens))
    lengths = torch.tensor([given.tokens])

    def whole(model: Translator) -> None:
        model(tokens, Padded(lengths), tokens)

    def steps(model: Translator) -> None:
        state = model.start(tokens, lengths)
        for position in range(given.tokens):
            model.step(tokens[:, position], state)

    used = copied(model)
    with capture(used), intervene(used, {"*.head_output": Mute([0])}), torch.inference_mode():
        whole(used)
    names = {"weights": ["*.weights"], "residual stream": ["*.stream"], "everything": ["*"]}
    contestants: dict[str, tuple[Translator, Callable[[Translator], AbstractContextManager]]] = {
        UNTAPPED: (untapped(model), nullcontext),
        "no capture": (model, nullcontext),
        "after a capture": (used, nullcontext),
        **{
            f"captured: {name}": (model, lambda m, chosen=some: capture(m, chosen))
            for name, some in names.items()
        },
        "one head muted": (
            model,
            lambda m: intervene(m, {"decoder.blocks.0.attention.head_output": Mute([0])}),
        ),
    }
    found = {}
    for title, run in {"one pass": whole, "cached steps": steps}.items():
        found[title] = measured(
            f"{title}, {given.tokens} tokens on each side", run, contestants, given.rounds
        )
    found["tap checks"] = tap_checks(model, found, given.tokens)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


def tap_checks(model: Translator, found: dict, tokens: int) -> dict[str, float]:
    """Prints and returns the share of a run's time that goes into checking for a tap."""
    attention = model.decoder.blocks[0].attention
    number = 1_000_000
    taken = timeit.timeit(
        lambda: attention.tap is None and isinstance(attention.score, ProductScore), number=number
    )
    attentions = len([module for module in model.modules() if isinstance(module, Attention)])
    per_step = attentions - model.config.encoder_layers
    each = taken / number
    counts = {
        "one pass": attentions + 1,
        "cached steps": model.config.encoder_layers + tokens * (per_step + 1),
    }
    shares = {
        title: count * each / (found[title][UNTAPPED]["milliseconds"] / 1000)
        for title, count in counts.items()
    }
    print(
        f"one check for a tap: {1e9 * each:.0f} ns; share of all time: "
        + ", ".join(f"{share:.4%} in {title}" for title, share in shares.items())
    )
    return shares


def copied(model: Translator) -> Translator:
    """New modules around the same weights."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def untapped(model: Translator) -> Translator:
    """A copy of the model that never checks for a tap."""
    other = copied(model)

    def fused(self: Attention, queries, memory, mask):
        head_output = self._fused(self.score, queries, memory, mask)
        return self.output(head_output.transpose(1, 2).flatten(2))

    for module in other.modules():
        if isinstance(module, Attention):
            module.forward = MethodType(fused, module)
    other.readout = MethodType(lambda self, states: F.linear(states, self.readout_weight), other)
    return other


@torch.inference_mode()
def measured(title: str, run: Run, contestants: dict, rounds: int) -> dict[str, dict[str, float]]:
    """Prints and returns the contestants' times, and the increase over the model without taps."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 3):
        names = list(contestants)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            model, context = contestants[name]
            with context(model):
                began = time.process_time()
                run(model)
                taken = time.process_time() - began
            if turn >= 3:
                times[name].append(taken)
    print(f"{title}: milliseconds, and the increase over the model without taps")
    found = {}
    for name, own in times.items():
        more = statistics.median(one / other for one, other in zip(own, times[UNTAPPED], strict=True)) - 1
        found[name] = {"milliseconds": 1000 * statistics.median(own), "more": more}
        print(f"  {name:32}{found[name]['milliseconds']:10.2f}{more:+10.2%}")
    print(flush=True)
    return found


if __name__ == "__main__":
    main()

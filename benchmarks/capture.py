"""What looking into a model costs: nothing when nobody looks, and how much when somebody does.

The model in the package is measured beside a twin that nobody could look into: its attentions always take the
fused path, and its logits are shown to nobody. Times are of the processor, contestants take turns, and the
median over the rounds is told. On a busy machine small differences are noise: the question whether somebody
looks, which is all that a model pays when nobody does, is measured alone too.

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
BLIND = "cannot be looked into"


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

    used = twin(model)
    with capture(used), intervene(used, {"*.head_output": Mute([0])}), torch.inference_mode():
        whole(used)
    names = {"weights": ["*.weights"], "the stream": ["*.stream"], "everything": ["*"]}
    contestants: dict[str, tuple[Translator, Callable[[Translator], AbstractContextManager]]] = {
        BLIND: (blind(model), nullcontext),
        "nobody looks": (model, nullcontext),
        "somebody has looked before": (used, nullcontext),
        **{
            f"captured: {name}": (model, lambda m, chosen=some: capture(m, chosen))
            for name, some in names.items()
        },
        "a head muted": (
            model,
            lambda m: intervene(m, {"decoder.blocks.0.attention.head_output": Mute([0])}),
        ),
    }
    found = {}
    for title, run in {"one pass": whole, "cached steps": steps}.items():
        found[title] = measured(
            f"{title}, {given.tokens} tokens on each side", run, contestants, given.rounds
        )
    found["questions"] = questions(model, found, given.tokens)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


def questions(model: Translator, found: dict, tokens: int) -> dict[str, float]:
    """Prints and gives the share of a run that goes into asking whether somebody looks."""
    attention = model.decoder.blocks[0].attention
    number = 1_000_000
    taken = timeit.timeit(
        lambda: attention.tap is None and isinstance(attention.score, ProductScore), number=number
    )
    asked = len([module for module in model.modules() if isinstance(module, Attention)])
    per_step = asked - model.config.encoder_layers
    each = taken / number
    counts = {"one pass": asked + 1, "cached steps": model.config.encoder_layers + tokens * (per_step + 1)}
    shares = {
        title: count * each / (found[title][BLIND]["milliseconds"] / 1000) for title, count in counts.items()
    }
    print(
        f"asking whether somebody looks: {1e9 * each:.0f} ns; of all time "
        + ", ".join(f"{share:.4%} in {title}" for title, share in shares.items())
    )
    return shares


def twin(model: Translator) -> Translator:
    """The same modules once more around the same weights: these lie where they lay."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def blind(model: Translator) -> Translator:
    """The same model without the question whether somebody looks."""
    other = twin(model)

    def fused(self: Attention, queries, memory, mask):
        mixed = self._fused(self.score, queries, memory, mask)
        return self.output(mixed.transpose(1, 2).flatten(2))

    for module in other.modules():
        if isinstance(module, Attention):
            module.forward = MethodType(fused, module)
    other.readout = MethodType(lambda self, states: F.linear(states, self.readout_weight), other)
    return other


@torch.inference_mode()
def measured(title: str, run: Run, contestants: dict, rounds: int) -> dict[str, dict[str, float]]:
    """Prints and gives the times of contestants, and how much more each takes than the blind one."""
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
    print(f"{title}: milliseconds, and how much more than a model that cannot be looked into")
    found = {}
    for name, own in times.items():
        more = statistics.median(one / other for one, other in zip(own, times[BLIND], strict=True)) - 1
        found[name] = {"milliseconds": 1000 * statistics.median(own), "more": more}
        print(f"  {name:32}{found[name]['milliseconds']:10.2f}{more:+10.2%}")
    print(flush=True)
    return found


if __name__ == "__main__":
    main()

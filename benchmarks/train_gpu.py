"""Training speed on a GPU compared with Hugging Face Marian and torch's nn.Transformer, in one run.

Base shape (Vaswani et al. 2017), bf16 autocast, Adam. clearhead gets the batches of a real run: rows packed
in the background while it is measured. Four parts:

- equal: unpadded pairs of 32 + 32 tokens; the peers are compiled.
- new_shapes: real sentences; the peers use length buckets, eager, Marian also compiled for dynamic shapes. As
  at the start of a run, nearly every batch has a new shape.
- known_shapes: the same, but the peers repeat batches whose shapes they have met before.
- lengths: longer and longer sentences.

    CLEARHEAD_DATA=… python benchmarks/train_gpu.py [--json FILE] [--parts equal new_shapes …]
    python benchmarks/train_gpu.py --draw FILE.json      (draws figures measured elsewhere)
    python benchmarks/train_gpu.py --small               (a smoke test on the CPU)
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, islice
from pathlib import Path

import numpy as np
import torch
from measuring import OURS, Step, Turns, about, peak, table
from peers import (
    LABEL_SMOOTHING,
    LEARNING_RATE,
    Peer,
    Shape,
    marian,
    multi30k,
    nn_transformer,
    smoothed_cross_entropy,
    tatoeba,
    tokenised,
)

from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.data.batching.packing import PackedBatches
from clearhead.data.store import PairStore, TokenSequences
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.tasks.translation.task import translation_loss
from clearhead.training import Feed, Prefetcher, Trainer, TrainingConfig
from clearhead.training.schedule import ConstantSchedule

PEERS: dict[str, Callable[[Shape], Peer]] = {
    "torch nn.Transformer": nn_transformer,
    "Hugging Face Marian": marian,
}
# How peers run batches of changing lengths; torch 2.11 cannot compile its own nn.Transformer for them.
MODES: dict[str, dict[str, bool | None]] = {
    "torch nn.Transformer": {"eager": None},
    "Hugging Face Marian": {"eager": None, "compiled": True},
}
SENTENCE, ROW = 32, 128


@dataclass(frozen=True)
class Bench:
    """The shape that is measured, and how."""

    shape: Shape
    turns: Turns
    tokens: tuple[int, ...]
    lengths: tuple[int, ...]
    pairs: int


FULL = Bench(
    Shape(512, 6, 32_000, max_length=8192),
    Turns(torch.device("cuda"), rounds=5, steps=10),
    (16_384, 65_536),
    (128, 256, 512, 1024, 2048, 4096, 8192),
    60_000,
)
SMALL = Bench(
    Shape(64, 1, 500, max_length=256),
    Turns(torch.device("cpu"), rounds=2, steps=1),
    (512,),
    (128,),
    pairs=300,
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    arguments.add_argument("--draw", type=Path, metavar="JSON", help="only draw the figures in this file")
    arguments.add_argument("--small", action="store_true", help="a tiny shape on the CPU")
    arguments.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    arguments.add_argument("--lengths", nargs="+", type=int, help="sentence lengths of the last part")
    options = arguments.parse_args()
    if options.draw:
        draw(json.loads(options.draw.read_text()), options.draw.with_suffix(".png"))
        return
    if not options.small and not torch.cuda.is_available():
        arguments.error("torch finds no GPU; --small runs a smoke test on the CPU")
    bench = SMALL if options.small else FULL
    bench = replace(bench, lengths=tuple(options.lengths or bench.lengths))
    torch.set_float32_matmul_precision("high")
    figures = {"about": about(bench.turns.device), "peak": peak(bench.turns)}
    print(f"{bench.shape}; {figures['about']}; matrix products reach {figures['peak'] / 1e12:.0f} TFLOP/s\n")
    for part in options.parts:
        for one in PARTS[part](bench, figures["peak"]):
            figures.setdefault(part, []).append(one)
            if options.json:
                options.json.write_text(json.dumps(figures, indent=1) + "\n")


def equal(bench: Bench, peak: float) -> Iterator[dict]:
    """Unpadded pairs of 32 + 32 tokens."""
    for tokens in bench.tokens:
        store = sentences(bench.shape, tokens // SENTENCE, SENTENCE)
        steps = {"clearhead": ours(bench, packed(store, tokens, ROW))}
        for name, make in PEERS.items():
            steps[f"{name}, compiled"] = peer(bench, make, cycle([one_batch(store)]), dynamic=False)
        title = f"{tokens:,} target tokens, unpadded"
        yield table(title, bench.turns, steps, peak, flops(bench.shape, share=1.0))


def new_shapes(bench: Bench, peak: float) -> Iterator[dict]:
    """Multi30k and Tatoeba, as at the start of a run."""
    return real(bench, peak, "new shapes", known=0)


def known_shapes(bench: Bench, peak: float) -> Iterator[dict]:
    """The same, with batches that the peers have met before."""
    return real(bench, peak, "shapes known", known=bench.turns.rounds * bench.turns.steps)


def real(bench: Bench, peak: float, shapes: str, known: int) -> Iterator[dict]:
    """Real sentences; the peers repeat `known` batches that they have met before; 0 gives them new ones."""
    for name, pairs in (("Multi30k", multi30k()), ("Tatoeba", tatoeba(bench.pairs))):
        if pairs is None:
            print(f"{name}: skipped, CLEARHEAD_DATA does not have it\n")
            continue
        store = tokenised(pairs[: bench.pairs], min(8000, bench.shape.vocabulary))
        budget = bench.tokens[0]
        feed = Feed(PackedBatches(store, BatchingConfig(tokens=budget, row_length=ROW), seed=0).epoch)
        steps = {"clearhead": ours(bench, feed)}
        buckets = BatchingConfig(tokens=budget)
        for peer_name, make in PEERS.items():
            for mode, dynamic in MODES[peer_name].items():
                feed = Feed(PaddedBatches(store, buckets, seed=0).epoch)
                batches = cycle(list(islice(feed, known))) if known else iter(feed)
                steps[f"{peer_name}, {mode}"] = peer(bench, make, batches, dynamic, before=known)
        share = float(store.source.lengths.mean() + 1) / float(store.target.lengths.mean() + 1)
        title = f"{name}, batches of {budget:,}, {shapes}"
        yield table(title, bench.turns, steps, peak, flops(bench.shape, share))


def lengths(bench: Bench, peak: float) -> Iterator[dict]:
    """The same number of tokens in fewer, longer sentences."""
    turns = replace(bench.turns, rounds=3, steps=5)
    for length in bench.lengths:
        store = sentences(bench.shape, max(1, bench.tokens[0] // length), length)
        steps = {"clearhead": ours(bench, packed(store, bench.tokens[0], length))}
        for name, make in PEERS.items():
            steps[f"{name}, eager"] = peer(bench, make, cycle([one_batch(store)]), None)
        found = table(f"sentences of {length} tokens", turns, steps, peak, flops(bench.shape, share=1.0))
        yield {"length": length, **found}


PARTS: dict[str, Callable[[Bench, float], Iterator[dict]]] = {
    "equal": equal,
    "new_shapes": new_shapes,
    "known_shapes": known_shapes,
    "lengths": lengths,
}


def flops(shape: Shape, share: float) -> float:
    """FLOPs per target token and its share of a source: products with weights, forward and backward."""
    attention, feedforward = shape.width**2, 2 * shape.width * shape.ffn_width
    # The last two products are the keys and values of cross-attention.
    source = shape.layers * (4 * attention + feedforward + 2 * attention)
    target = shape.layers * (6 * attention + feedforward) + shape.vocabulary * shape.width
    return 6.0 * (source * share + target)


def ours(bench: Bench, batches: Iterator[PackedBatch] | Feed) -> Callable[[], Step]:
    def make() -> Step:
        model = Translator(TranslatorConfig.model_validate(bench.shape.settings), bench.shape.vocabulary)
        config = TrainingConfig(
            steps=1 << 40,
            schedule=ConstantSchedule(learning_rate=LEARNING_RATE),
            device=bench.turns.device.type,
            precision="bf16",
        )
        trainer = Trainer(
            model,
            lambda model, batch: translation_loss(model, batch, LABEL_SMOOTHING),
            config,
        )
        ready = batches if isinstance(batches, Feed) else Feed(lambda number, skip: batches)
        if bench.turns.device.type == "cuda":
            ready = Prefetcher(ready, lambda batch: batch.map(torch.Tensor.pin_memory))
        given = []

        def counted() -> Iterator[PackedBatch]:
            for batch in ready:
                given.append(batch.tokens)
                yield batch

        reports = trainer.steps(counted())

        def step() -> int:
            next(reports)
            return given.pop()

        return step

    return make


def peer(
    bench: Bench,
    make_peer: Callable[[Shape], Peer],
    batches: Iterator[PairBatch],
    dynamic: bool | None,
    before: int = 0,
) -> Callable[[], Step]:
    """A peer's usual step with fused Adam, after some steps `before`; eager if `dynamic` is None."""

    def make() -> Step:
        model, logits = make_peer(bench.shape)
        model.to(bench.turns.device).train()
        optimizer = torch.optim.Adam(
            model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

        def loss(batch: PairBatch) -> torch.Tensor:
            with torch.autocast(bench.turns.device.type, torch.bfloat16):
                return smoothed_cross_entropy(logits(batch), batch.labels)

        compiled = loss if dynamic is None else torch.compile(loss, dynamic=dynamic)

        def step() -> int:
            batch = next(batches)
            if bench.turns.device.type == "cuda":
                batch = batch.map(torch.Tensor.pin_memory).to(bench.turns.device, non_blocking=True)
            compiled(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            return batch.tokens

        for _ in range(before):
            step()
        return step

    return make


def sentences(shape: Shape, number: int, length: int) -> PairStore:
    """Pairs of random tokens; each has the given length with its end token."""
    random = np.random.default_rng(0)
    sides = random.integers(4, shape.vocabulary, (2, number, length - 1)).tolist()
    return PairStore.of(*sides)


def one_batch(store: PairStore) -> PairBatch:
    return PairBatch.gather(*store.gather(0, np.arange(len(store))))


def packed(store: PairStore, tokens: int, row_length: int) -> Iterator[PackedBatch]:
    """Batches of all pairs of a store, each packed afresh."""
    for number in count():
        rows = np.random.default_rng(number).permutation(len(store))
        in_row = row_length // (int(store.target.lengths[0]) + 1)
        sides: Sequence[TokenSequences] = store.gather(number, rows)
        yield PackedBatch.pack(
            *sides, np.arange(len(rows)) // in_row, max(1, tokens // row_length), row_length
        )


def draw(figures: dict, path: Path) -> None:
    """Draw bars for the batches and curves for the lengths, as far as they were measured."""
    from matplotlib.figure import Figure

    bars = [one for part in ("equal", "new_shapes", "known_shapes") for one in figures.get(part, [])]
    growing = figures.get("lengths", [])
    plot = Figure(figsize=(5.5 * len(bars) + 5.5 * bool(growing), 3.5), layout="constrained")
    axes = plot.subplots(1, len(bars) + bool(growing), squeeze=False)[0]
    for axis, one in zip(axes, bars, strict=False):
        names = list(one["models"])
        speeds = [one["models"][name]["tokens_per_second"] / 1e3 for name in names]
        colours = ["tab:blue" if name == OURS else "tab:gray" for name in names]
        axis.bar_label(axis.barh(names[::-1], speeds[::-1], color=colours[::-1]), fmt="%.0f", padding=3)
        axis.set(xlabel="thousand target tokens per second", xlim=(0, 1.2 * max(speeds)))
        axis.set_title(one["title"], fontsize="medium")
    for name in {name: None for one in growing for name in one["models"]}:
        kept = [one for one in growing if name in one["models"]]
        speeds = [one["models"][name]["tokens_per_second"] / 1e3 for one in kept]
        axes[-1].plot([one["length"] for one in kept], speeds, marker="o", label=name)
    if growing:
        axes[-1].set(xscale="log", xlabel="tokens in a sentence", ylabel="thousand target tokens per second")
        axes[-1].set_xticks([one["length"] for one in growing], [one["length"] for one in growing])
        axes[-1].minorticks_off()
        axes[-1].set_ylim(bottom=0)
        axes[-1].legend()
    plot.suptitle(figures["about"], fontsize="small")
    plot.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main()

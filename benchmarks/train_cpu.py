"""Training speed compared with other libraries, in target tokens per CPU-second.

All models have the same shape and run whole steps on the same batches in turn: forward, loss, backward, Adam.
The first table is fp32 at width 256; the second is width 512, ours in bf16, Hugging Face in fp32. The texts
are Multi30k if CLEARHEAD_DATA has it, otherwise the shipped Tatoeba pairs.

    python benchmarks/train_cpu.py [--threads 1] [--rounds 8] [--tokens 2048] [--json FILE]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import torch
from peers import (
    LABEL_SMOOTHING,
    LEARNING_RATE,
    Shape,
    marian,
    multi30k,
    nn_transformer,
    smoothed_cross_entropy,
    tatoeba,
    tokenised,
    x_transformer,
)
from torch import nn

from clearhead.data.batch import PairBatch
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.layers.layout import Padded
from clearhead.models.translator import Translator, TranslatorConfig
from clearhead.training import cross_entropy_loss
from clearhead.training.optimizer import AdamConfig, Optimizer

VOCABULARY, LAYERS = 8000, 3
Step = Callable[[PairBatch], None]
Model = tuple[nn.Module, Step]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=8)
    arguments.add_argument("--tokens", type=int, default=2048, help="tokens per batch")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    pairs = multi30k()
    corpus, pairs = ("Multi30k", pairs) if pairs else ("Tatoeba", tatoeba(30_000))
    plan = PaddedBatches(tokenised(pairs, VOCABULARY), BatchingConfig(tokens=options.tokens), seed=0)
    batches = list(islice(plan.epoch(0), options.rounds))
    tokens = statistics.median(batch.tokens for batch in batches)
    padding = statistics.mean(batch.padding for batch in batches)
    print(
        f"{corpus}: {len(batches)} batches of about {tokens:.0f} target tokens, {padding:.1%} padding, ",
        end="",
    )
    print(f"{options.threads} thread(s)\n", flush=True)
    first = {
        "clearhead": ours,
        "torch nn.Transformer": lambda shape: trained(*nn_transformer(shape)),
        "Hugging Face Marian": lambda shape: trained(*marian(shape)),
        "x-transformers": lambda shape: trained(*x_transformer(shape)),
    }
    second = {name: first[name] for name in ("clearhead", "Hugging Face Marian")}
    second = {"clearhead, bf16": ours_bf16} | second
    tables = [
        table(Shape(256, LAYERS, VOCABULARY), first, batches),
        table(Shape(512, LAYERS, VOCABULARY), second, batches[: max(1, len(batches) // 2)]),
    ]
    if options.json:
        options.json.write_text(json.dumps({"corpus": corpus, "tables": tables}, indent=1) + "\n")


def table(shape: Shape, makers: dict[str, Callable[[Shape], Model]], batches: list[PairBatch]) -> dict:
    """Measure the models in turn on every batch; print and return their medians."""
    steps: dict[str, Step] = {}
    sizes, skipped = {}, {}
    for name, make in makers.items():
        torch.manual_seed(0)
        try:
            model, steps[name] = make(shape)
            sizes[name] = sum(p.numel() for p in model.parameters() if p.requires_grad)
        except ImportError as error:
            skipped[name] = str(error)
    for step in steps.values():
        step(batches[0])
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for number, batch in enumerate(batches):
        names = list(steps)
        # The first model finds the CPU caches cold: each comes first in turn.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.process_time()
            steps[name](batch)
            rates[name].append(batch.tokens / (time.process_time() - start))
    mine = rates[next(iter(steps))]
    print(shape)
    print(f"  {'model':24}{'parameters':>12}{'tokens/CPU-s':>14}{'ours is':>10}")
    figures = {}
    for name, theirs in rates.items():
        ratio = statistics.median(own / other for own, other in zip(mine, theirs, strict=True))
        figures[name] = {"tokens_per_cpu_second": statistics.median(theirs), "ratio_of_ours": ratio}
        print(f"  {name:24}{sizes[name]:12,}{statistics.median(theirs):14.0f}{ratio:9.2f}x")
    for name, reason in skipped.items():
        print(f"  {name:24}  skipped: {reason}")
    print()
    return {"width": shape.width, "models": figures, "skipped": skipped}


def ours(shape: Shape, autocast: Callable = nullcontext) -> Model:
    model = Translator(TranslatorConfig.model_validate(shape.settings), shape.vocabulary)
    optimizer = Optimizer(model, AdamConfig())

    def step(batch: PairBatch) -> None:
        with autocast():
            states = model.states(batch.source, Padded(batch.source_lengths), batch.inputs)
            loss = cross_entropy_loss(states, model.readout_weight, batch.labels, LABEL_SMOOTHING)
        (loss / batch.tokens).backward()
        optimizer.step(LEARNING_RATE)
        optimizer.zero_grad()

    return model, step


def ours_bf16(shape: Shape) -> Model:
    return ours(shape, lambda: torch.autocast("cpu", torch.bfloat16))


def trained(model: nn.Module, logits: Callable) -> Model:
    """A peer with its usual training step and fused Adam."""
    optimizer = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True
    )

    def step(batch: PairBatch) -> None:
        smoothed_cross_entropy(logits(batch), batch.labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


if __name__ == "__main__":
    main()

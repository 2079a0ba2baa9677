"""The claim: recurrent networks cannot be parallelised, so that they train slower than a Transformer.

    python -m benchmarks.claims.speed --device cuda [--tiny]
    python -m benchmarks.claims.speed --device cpu
    python -m benchmarks.claims.speed --from benchmarks/results     (both devices in one table)

Forward and backward pass of translators with about the same number of parameters, for one sentence and for
batches of a constant number of tokens, at 8 to 512 tokens on each side; and an epoch of the shipped Tatoeba
pairs. On a CPU, in CPU-seconds of one thread. Nothing else should run.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, table, text, values
from benchmarks.claims.lengths import TRANSFORMER
from benchmarks.claims.translators import recurrent, tatoeba
from matplotlib.figure import Figure

from clearhead.data.batch import PairBatch
from clearhead.data.batching.buckets import BatchingConfig, PaddedBatches
from clearhead.models import build, read_config
from clearhead.tasks.translation.task import translation_loss
from clearhead.training import Trainer, TrainingConfig

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
BATCHES = ("one sentence", "a full batch")
EPOCH = "epoch"
TOKENS = {"cpu": 1024, "cuda": 16_384}
ROUNDS = {"cpu": 2, "cuda": 5}
# Batches of an epoch that are measured.
SAMPLE = {"cpu": 6, "cuda": 20}
# Attention after the recurrence leaves the whole sequence to a fused kernel; before each step it cannot.
FUSED = {"attend": "after", "attention": {"score": "general"}}
MODELS: dict[str, dict[str, Any]] = {
    "RNN": recurrent("rnn", width=480, **FUSED),
    "GRU": recurrent("gru", width=400, **FUSED),
    "LSTM": recurrent("lstm", width=352, **FUSED),
    "GRU, attention before each step": recurrent("gru", width=384),
    "Transformer": TRANSFORMER,
}


def cases(options: Options) -> list[Record]:
    names = ("GRU", "Transformer") if options.tiny else MODELS
    lengths = (8, 16) if options.tiny else LENGTHS
    # One case measures a model at all lengths: rounds in turn would keep all models in memory.
    return [
        {"model": name, "lengths": list(lengths), "seed": seed} for seed in options.seeds for name in names
    ]


def measure(options: Options, case: Record) -> Record:
    corpus = tatoeba("de", options.tiny)
    small = {"width": 32} if options.tiny else {}
    settings = MODELS[case["model"]] | small | {"max_length": max(LENGTHS)}
    model = build(read_config(settings), corpus.tokenizer)
    config = TrainingConfig.model_validate({"steps": 1, "device": options.device, "compile": "off"})
    # Moves the model, and chooses the precision of a run.
    trainer = Trainer(model, translation_loss, config)
    rounds = 1 if options.tiny else ROUNDS[options.device]

    def passes(batches: Sequence[PairBatch]) -> Callable[[], None]:
        ready = [batch.to(trainer.device) for batch in batches]

        def run() -> None:
            for batch in ready:
                with trainer.autocast():
                    loss = translation_loss(model, batch)
                loss.backward()
                model.zero_grad(set_to_none=True)

        return run

    found: Record = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    for length in case["lengths"]:
        full = max(1, (256 if options.tiny else TOKENS[options.device]) // length)
        for name, rows in zip(BATCHES, (1, full), strict=True):
            taken = seconds(
                passes([random_batch(rows, length, corpus.tokenizer.size)]), rounds, options.device
            )
            found[f"{name} {length}"] = taken / rows
    batches = PaddedBatches(
        corpus.store, BatchingConfig(tokens=8192 if options.device == "cuda" else 1024), 1
    )
    some = list(islice(batches.epoch(0), 2 if options.tiny else SAMPLE[options.device]))
    share = sum(batch.tokens for batch in some) / (int(corpus.store.lengths[1].sum()) + len(corpus.store))
    return found | {EPOCH: seconds(passes(some), 1 if options.device == "cpu" else 3, options.device) / share}


def random_batch(rows: int, length: int, vocabulary: int) -> PairBatch:
    """Sources and targets of `length` tokens, special tokens included."""
    generator = torch.Generator().manual_seed(0)
    sides = torch.randint(8, vocabulary, (2, rows, length - 1), generator=generator).tolist()
    return PairBatch.of(*sides)


def seconds(run: Callable[[], None], rounds: int, device: str) -> float:
    """The median time of a run, after one to warm up; on a CPU, the time of the process."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    run()
    taken = []
    for _ in range(rounds):
        synchronize()
        started = clock()
        run()
        synchronize()
        taken.append(clock() - started)
    return statistics.median(taken)


def report(records: Sequence[Record]) -> str:
    parts = []
    for device in cases_of(records, "device"):
        own = [record for record in records if record["device"] == device]
        models = [model for model in MODELS if model in cases_of(own, "model")]
        lengths = own[0]["lengths"]
        for batch in BATCHES:
            rows = []
            for model in models:
                found = {n: [1e3 * v for v in values(own, f"{batch} {n}", model=model)] for n in lengths}
                cells = [text(one, ".3g") for one in found.values()]
                rows.append([model, *cells, f"{growth(own, model, batch):.2f}"])
            head = [f"{device}, {batch}: ms per sentence of", *map(str, lengths), "exponent"]
            parts.append(table(head, rows))
        transformer = mean(values(own, EPOCH, model="Transformer"))
        rows = [
            [
                model,
                f"{values(own, 'parameters', model=model)[0] / 1e6:.1f} M",
                text(values(own, EPOCH, model=model), ".3g"),
                f"{mean(values(own, EPOCH, model=model)) / transformer:.2f}x",
            ]
            for model in models
        ]
        parts.append(
            table([f"{device}: an epoch of Tatoeba", "parameters", "seconds", "of the Transformer"], rows)
        )
        parts.append(finding(own, models, lengths))
    return "\n\n".join(parts)


def growth(records: Sequence[Record], model: str, batch: str) -> float:
    """The exponent e of time ~ length^e, from the middle length to the largest."""
    lengths = records[0]["lengths"]
    near, far = lengths[len(lengths) // 2], lengths[-1]
    first, last = (mean(values(records, f"{batch} {n}", model=model)) for n in (near, far))
    return (
        math.log(last / first) / math.log(far / near)
        if far > near and first > 0 and last > 0
        else float("nan")
    )


def finding(records: Sequence[Record], models: Sequence[str], lengths: Sequence[int]) -> str:
    device = records[0]["device"]
    lines = []
    for batch in BATCHES:
        for n in (lengths[0], lengths[-1]):
            ours = mean(values(records, f"{batch} {n}", model="Transformer"))
            ratios = ", ".join(
                f"{model} {mean(values(records, f'{batch} {n}', model=model)) / max(ours, 1e-12):.1f}x"
                for model in models
                if model != "Transformer"
            )
            lines.append(f"Finding, {device}, {batch}, {n} tokens, relative to the Transformer: {ratios}.")
    return "\n".join(lines)


def draw(records: Sequence[Record], picture: Figure) -> None:
    devices = cases_of(records, "device")
    axes = picture.subplots(1, 2 * len(devices), squeeze=False)[0]
    for number, device in enumerate(devices):
        own = [record for record in records if record["device"] == device]
        for axis, batch in zip(axes[2 * number :], BATCHES, strict=False):
            for model in (model for model in MODELS if model in cases_of(own, "model")):
                lengths = own[0]["lengths"]
                found = [1e3 * mean(values(own, f"{batch} {n}", model=model)) for n in lengths]
                axis.plot(lengths, found, marker="o", markersize=3, label=model)
            axis.set(xscale="log", yscale="log", xlabel="tokens", title=f"{device}, {batch}")
    axes[0].set_ylabel("ms per sentence, forward and backward")
    axes[0].legend(fontsize="x-small")


CLAIM = Claim(
    "speed",
    "The lectures: RNNs (LSTM, GRU) can't be parallelised and are slow to train; from RNN to GRU to LSTM "
    "the training time doesn't decrease, as all are sequential; Transformers are parallelisable and train "
    "faster.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)

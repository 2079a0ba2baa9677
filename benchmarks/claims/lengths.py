"""The claim: BLEU falls with the length of the source without attention, and attention repairs it.

    python -m benchmarks.claims.lengths --device cuda --processes 9 [--tiny]

Tatoeba pairs (English-German, shipped) are joined to 10 to 60 source words for training, and to exactly 10,
20 … 60 for testing. All pairs have 3 to 10 source words, so that the buckets differ in nothing but length.
"""

import functools
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.claims.claim import Claim, Options, Record, cases_of, main, mean, spread, table, text, values
from benchmarks.claims.translators import (
    TINY,
    Corpus,
    Training,
    parameters,
    recurrent,
    score,
    tatoeba,
    trained,
)
from matplotlib.figure import Figure

from clearhead.data.pair import Pair

BUCKETS = (10, 20, 30, 40, 50, 60)
SHORTEST, LONGEST = 3, 10
TRAINING = Training(steps=1500, tokens=16_384, learning_rate=1.5e-3)
TRANSFORMER: dict[str, Any] = {
    "kind": "translator",
    "width": 256,
    "ffn_width": 1024,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "attention": {"heads": 4},
    "norm_position": "pre",
    "max_length": 256,
}
FIXED = "fixed vector"
MODELS: dict[str, dict[str, Any]] = {
    FIXED: recurrent("gru", width=384, attend="none", fixed_vector="both"),
    "additive attention": recurrent("gru", width=384),
    "Transformer": TRANSFORMER,
}


def joined(pairs: Iterable[Pair], lengths: Iterable[int]) -> Iterator[Pair]:
    """Consecutive pairs joined until the source has exactly the next length, in words; each is used once.

    A pair that does not fit waits for the next length. Ends when no pairs are left.
    """
    waiting = deque(pairs)
    for length in lengths:
        chosen: list[Pair] = []
        left: list[Pair] = []
        missing = length
        while missing and waiting:
            pair = waiting.popleft()
            words = len(pair.source.split())
            if words == missing or words <= missing - SHORTEST:
                chosen.append(pair)
                missing -= words
            else:
                left.append(pair)
        waiting.extendleft(reversed(left))
        if missing:
            return
        yield Pair(*(" ".join(side) for side in zip(*chosen, strict=True)))


def shuffled(pairs: Iterable[Pair], rng: random.Random) -> list[Pair]:
    """The pairs whose source has 3 to 10 words, in random order."""
    kept = [pair for pair in pairs if SHORTEST <= len(pair.source.split()) <= LONGEST]
    rng.shuffle(kept)
    return kept


@functools.cache
def data(language: str, tiny: bool) -> tuple[Corpus, dict[int, list[Pair]]]:
    """Tatoeba with joined training pairs, and the joined test pairs of each bucket."""
    corpus, rng = tatoeba(language, tiny, test=4000), random.Random(0)
    train: list[Pair] = []
    # Other joints in each pass, so that a model cannot learn them by heart.
    for _ in range(1 if tiny else 3):
        endless = iter(lambda: rng.randint(BUCKETS[0], BUCKETS[-1]), None)
        train += joined(shuffled(corpus.train, rng), endless)
    buckets, sentences = ((10, 50), 1) if tiny else (BUCKETS, 200)
    test = {n: list(joined(shuffled(corpus.test, rng), [n] * sentences)) for n in buckets}
    return replace(corpus, train=train), test


def cases(options: Options) -> list[Record]:
    return [{"model": model, "seed": seed} for seed in options.seeds for model in MODELS]


def measure(options: Options, case: Record) -> Record:
    corpus, buckets = data("de", options.tiny)
    settings = MODELS[case["model"]] | ({"width": 32} if options.tiny else {})
    model = trained(corpus, settings, TINY if options.tiny else TRAINING, options, case["seed"])
    return {"parameters": parameters(model)} | {f"bleu_{n}": score(model, buckets[n]) for n in buckets}


def lost(records: Sequence[Record], model: str) -> list[float]:
    """BLEU at 10 words minus BLEU at 50 words, for each seed."""
    short, long = (values(records, f"bleu_{n}", model=model) for n in (10, 50))
    return [one - other for one, other in zip(short, long, strict=True)]


def report(records: Sequence[Record]) -> str:
    models = [model for model in MODELS if model in cases_of(records, "model")]
    rows = []
    for model in models:
        cells = [text(values(records, f"bleu_{n}", model=model)) for n in BUCKETS]
        size = f"{values(records, 'parameters', model=model)[0] / 1e6:.1f} M"
        rows.append([model, size, *cells, text(lost(records, model))])
    head = ["BLEU, source words:", "parameters", *map(str, BUCKETS), "lost from 10 to 50"]
    lines = [table(head, rows)]
    for model in models:
        most = 10.0 if model == FIXED else 3.0
        loss = mean(lost(records, model))
        holds = loss > most if model == FIXED else loss < most
        expected = f"{'more' if model == FIXED else 'less'} than {most:.0f}"
        verdict = "holds" if holds else "does not hold"
        lines.append(
            f"{model}: {loss:.1f} BLEU lost from 10 to 50 words; that it loses {expected} {verdict}."
        )
    return "\n\n".join([lines[0], "\n".join(lines[1:])])


def draw(records: Sequence[Record], picture: Figure) -> None:
    axes = picture.subplots()
    for model in (model for model in MODELS if model in cases_of(records, "model")):
        found = [values(records, f"bleu_{n}", model=model) for n in BUCKETS]
        middle, around = [mean(one) for one in found], [spread(one) for one in found]
        axes.errorbar(BUCKETS, middle, around, marker="o", capsize=3, label=model)
    axes.set(xlabel="source words", ylabel="BLEU", ylim=(0, None), xticks=BUCKETS)
    axes.legend()


CLAIM = Claim(
    "lengths",
    "The lectures: a recurrent encoder turns 10 words and 100 words into a tensor of the same size, and "
    "BLEU falls as sentences grow longer; attention relieves this bottleneck.",
    cases,
    measure,
    report,
    draw,
)

if __name__ == "__main__":
    main(CLAIM)

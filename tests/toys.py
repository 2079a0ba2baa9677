"""Toy tasks with known answers: copy, reverse or sort a sequence of symbols."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from clearhead.data.batch import PairBatch
from clearhead.errors import SettingsError
from clearhead.text.tokenizer import EOS

Toy = Literal["copy", "reverse", "sort"]
TARGETS: dict[Toy, Callable[[list[int]], list[int]]] = {
    "copy": list,
    "reverse": lambda source: source[::-1],
    "sort": sorted,
}
FIRST_SYMBOL = EOS + 1


def toy_pairs(
    task: Toy, count: int, seed: int, vocabulary: int = 16, max_length: int = 8
) -> list[tuple[list[int], list[int]]]:
    """Sources of random length and symbols, each with its target."""
    if vocabulary <= FIRST_SYMBOL:
        raise SettingsError(
            f"vocabulary: {vocabulary} leaves no symbols beside {FIRST_SYMBOL} special tokens"
        )
    random = np.random.default_rng(seed)
    lengths = random.integers(1, max_length + 1, size=count)
    sources = [random.integers(FIRST_SYMBOL, vocabulary, size=length).tolist() for length in lengths]
    return [(source, TARGETS[task](source)) for source in sources]


def toy_batch(task: Toy, count: int, seed: int, vocabulary: int = 16, max_length: int = 8) -> PairBatch:
    sources, targets = zip(*toy_pairs(task, count, seed, vocabulary, max_length), strict=True)
    return PairBatch.of(sources, targets)


def toy_batches(
    task: Toy, size: int, seed: int, vocabulary: int = 16, max_length: int = 8
) -> Iterator[PairBatch]:
    """An endless stream of new batches."""
    random = np.random.default_rng(seed)
    while True:
        yield toy_batch(task, size, int(random.integers(1 << 62)), vocabulary, max_length)

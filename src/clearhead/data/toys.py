"""Toy tasks whose right answer is known: copy, reverse and sort a line of symbols."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from clearhead.data.batch import PairBatch
from clearhead.errors import SettingsError
from clearhead.text.tokenizer import END

Toy = Literal["copy", "reverse", "sort"]
FIRST = END + 1


def toy_pairs(
    task: Toy, count: int, seed: int, vocabulary: int = 16, max_length: int = 8
) -> list[tuple[list[int], list[int]]]:
    """Sources of random length and symbols, and what the task makes of each."""
    if vocabulary <= FIRST:
        raise SettingsError(
            f"vocabulary {vocabulary} has no room for symbols beside the {FIRST} special tokens"
        )
    random = np.random.default_rng(seed)
    lengths = random.integers(1, max_length + 1, size=count)
    sources = [random.integers(FIRST, vocabulary, size=length).tolist() for length in lengths]
    return [(source, answer(task, source)) for source in sources]


def answer(task: Toy, source: list[int]) -> list[int]:
    """The right target."""
    match task:
        case "copy":
            return list(source)
        case "reverse":
            return source[::-1]
        case "sort":
            return sorted(source)


def toy_batch(task: Toy, count: int, seed: int, vocabulary: int = 16, max_length: int = 8) -> PairBatch:
    """One batch of a toy task."""
    sources, targets = zip(*toy_pairs(task, count, seed, vocabulary, max_length), strict=True)
    return PairBatch.of(sources, targets)


def toy_batches(
    task: Toy, size: int, seed: int, vocabulary: int = 16, max_length: int = 8
) -> Iterator[PairBatch]:
    """Fresh batches without end."""
    random = np.random.default_rng(seed)
    while True:
        yield toy_batch(task, size, int(random.integers(1 << 62)), vocabulary, max_length)

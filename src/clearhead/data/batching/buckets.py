"""Padded batches of pairs: similar in length, within a token budget."""

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from clearhead.config import Settings
from clearhead.data.batch import PairBatch
from clearhead.data.batching.plan import SINGLE, Batch, Plan, PlannedBatches, Share
from clearhead.data.store import PairStore, TokenSequences
from clearhead.errors import DataError
from clearhead.wording import counted

Rows = NDArray[np.int64]
Lengths = NDArray[np.int32]
# Batches per bucket of lengths. Measured: two to four are equally good, fewer pad more.
BUCKET_BATCHES = 3
Encode = Callable[[int, Rows], tuple[TokenSequences, TokenSequences]]
"""The token ids of rows in an epoch."""
MeasuredLengths = Callable[[int], tuple[Lengths, Lengths]]
"""The lengths of all sources and of all targets in an epoch."""


class BatchingConfig(Settings):
    """How pairs form batches."""

    tokens: Annotated[int, Field(gt=0)] = 4096
    """maximum size of a batch on either side: rows times positions"""
    kind: Literal["auto", "padded", "packed"] = "auto"
    """padded: one pair per row; packed: several pairs per row; auto: packed on a GPU"""
    row_length: Annotated[int, Field(gt=0)] = 128
    """positions of a packed row; longer pairs get rows of two or four times this length"""
    window: Annotated[int, Field(gt=0)] = 1_000_000
    """number of pairs that are sorted by length at a time, for padded batches"""


class PairBatches(PlannedBatches[Plan, Batch]):
    """Batches of the pairs of a store; every pair comes once per epoch.

    `encode` may return other ids for the rows of an epoch, as BPE dropout does; with their `lengths`, padded
    batches stay as tight as without.
    """

    def __init__(
        self,
        store: PairStore,
        config: BatchingConfig,
        seed: int,
        share: Share = SINGLE,
        encode: Encode | None = None,
        lengths: MeasuredLengths | None = None,
    ):
        super().__init__(seed, share)
        self.lengths: MeasuredLengths = lengths or (lambda epoch: store.lengths)
        self.store, self.config = store, config
        self.encode: Encode = encode or store.gather
        self.check()

    def check(self) -> None:
        """Raises DataError if the store cannot fill a step."""


class PaddedBatches(PairBatches[Rows, PairBatch]):
    """One pair per row, padded to the longest."""

    _planned: tuple[int, list[Rows]] | None = None

    def check(self) -> None:
        steps = self.share.batches_per_step
        if len(self.store) < steps:
            raise DataError(
                f"{counted(len(self.store), 'pair')} cannot fill the {counted(steps, 'batch')} of a step; "
                "use fewer ranks, a lower training.accumulate or more pairs"
            )

    def count(self, epoch: int) -> int:
        """The number of batches each rank gets in an epoch."""
        return len(self.plan(epoch)) // self.share.ranks

    def plan(self, epoch: int) -> list[Rows]:
        if self._planned is None or self._planned[0] != epoch:
            steps = self.share.batches_per_step
            self._planned = epoch, plan(*self.lengths(epoch), self.config, self.random(epoch), steps)
        return self._planned[1]

    def build(self, epoch: int, plan: Rows) -> PairBatch:
        return PairBatch.gather(*self.encode(epoch, plan))


def plan(
    sources: Lengths, targets: Lengths, config: BatchingConfig, random: Generator, batches_per_step: int = 1
) -> list[Rows]:
    """Batches as arrays of row numbers: every row once, shuffled, similar in length within a batch."""
    shuffled = random.permutation(len(sources))
    batches: list[Rows] = []
    for start in range(0, len(shuffled), config.window):
        window = shuffled[start : start + config.window]
        rows = window[_random_snake(sources[window], targets[window], config.tokens, random)]
        # Encoder and decoder each see one special token in addition.
        longer = np.maximum(sources[rows], targets[rows]) + 1
        batches += np.split(rows, cuts(longer, config.tokens, first=random.uniform(0.1, 1.0)))
    batches = _divisible(batches, batches_per_step)
    count = len(batches) - len(batches) % batches_per_step
    return [batches[index] for index in random.permutation(len(batches))[:count]]


def snake_order(first: Lengths, second: Lengths, budget: int, upwards: int = 0) -> Rows:
    """Row numbers by bucket of the first length; within a bucket by the second, alternately up and down.

    Neighbours are similar in both lengths. Rare lengths share a bucket so that it fills several batches: in a
    smaller bucket, a single batch would hold all lengths of the other side.
    """
    cells = np.bincount(first, np.maximum(first, second) + 1)
    starts = (np.cumsum(cells) - cells) // (BUCKET_BATCHES * budget)
    buckets = np.unique(starts, return_inverse=True)[1][first]
    widest = int(second.max()) + 1
    alternating = np.where(buckets % 2 == upwards, second, widest - 1 - second)
    return np.argsort(buckets * widest + alternating, kind="stable")


def cuts(lengths: Lengths, budget: int, first: float = 1.0) -> list[int]:
    """Where to cut a sequence of sentences into batches within the budget; a longer one is a batch alone.

    The first batch gets the share `first` of the budget; a new share in each epoch shifts all later cuts.
    """
    positions: list[int] = []
    start, capacity = 0, int(budget * first)
    while start < len(lengths):
        ahead = lengths[start : start + capacity // int(lengths[start]) + 1]
        cells = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
        start += max(1, int(np.searchsorted(cells, capacity, side="right")))
        positions.append(start)
        capacity = budget
    return positions[:-1]


def _random_snake(sources: Lengths, targets: Lengths, budget: int, random: Generator) -> Rows:
    """One of eight snake orders, so that rare lengths do not share the same batches in every epoch."""
    by_source, upwards, backwards = random.integers(2, size=3).tolist()
    first, second = (sources, targets) if by_source else (targets, sources)
    order = snake_order(first, second, budget, upwards)
    return order[::-1] if backwards else order


def _divisible(batches: list[Rows], batches_per_step: int) -> list[Rows]:
    """Halves the largest batches until they fill whole steps, so that no pair is left out."""
    while (missing := -len(batches) % batches_per_step) and any(len(batch) > 1 for batch in batches):
        batches = sorted(batches, key=len)
        largest = batches[-missing:]
        halves = [half for batch in largest for half in np.array_split(batch, 2) if len(half)]
        batches = batches[: len(batches) - len(largest)] + halves
    return batches

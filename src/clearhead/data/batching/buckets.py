"""Which pairs share a batch: near in length, within a budget, the same for the same seed and epoch."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from clearhead.config import Settings
from clearhead.data.batch import PairBatch
from clearhead.data.store import PairStore, Side
from clearhead.errors import DataError

Rows = NDArray[np.int64]
# Batches in a band of lengths; measured: two to four are alike, fewer pad more.
BAND = 3
Encode = Callable[[int, Rows], tuple[Side, Side]]


class BatchingConfig(Settings):
    """How pairs are put together."""

    tokens: Annotated[int, Field(gt=0)] = 4096
    """the most cells of a batch on either side: rows times positions"""
    kind: Literal["auto", "padded", "packed"] = "auto"
    """one pair a row, padded; or as many as fit, packed; auto: packed on a GPU"""
    row_length: Annotated[int, Field(gt=0)] = 128
    """of a packed row; a pair longer than that gets a row of twice as many, or four times"""
    window: Annotated[int, Field(gt=0)] = 1_000_000
    """pairs that are sorted together by their lengths for padded rows"""


class Batches:
    """The batches of a store, epoch by epoch, for one of several ranks.

    An epoch is planned in full from (seed, epoch), the same way in every rank; then each rank takes its
    share. So it can be resumed anywhere, by any number of ranks, without reading what was skipped. A step
    takes `together` batches over all ranks, and an epoch has a multiple of that. `encode` may give other ids
    for the rows of an epoch, for instance with tokens split at random.
    """

    def __init__(
        self,
        store: PairStore,
        config: BatchingConfig,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        batches_per_step: int | None = None,
        encode: Encode | None = None,
    ):
        self.store, self.config, self.seed = store, config, seed
        self.rank, self.ranks, self.batches_per_step = rank, ranks, batches_per_step or ranks
        if len(store) < self.batches_per_step:
            raise DataError(
                f"{len(store)} pairs cannot be shared among the {self.batches_per_step} batches of a step; use fewer "
                "ranks, a lower training.accumulate or more pairs"
            )
        self.encode: Encode = encode or store.gather
        self._plan: tuple[int, list[Rows]] | None = None

    def count(self, epoch: int) -> int:
        """How many batches this rank, as every other, gets in an epoch."""
        return len(self.plan(epoch)) // self.ranks

    def epoch(self, number: int, skip: int = 0) -> Iterator[PairBatch]:
        """The batches of an epoch for this rank, without the first `skip` of all ranks together."""
        for rows in self.plan(number)[skip + self.rank :: self.ranks]:
            yield PairBatch.gather(*self.encode(number, rows))

    def plan(self, epoch: int) -> list[Rows]:
        """The rows of every batch of every rank, in order; their number is a multiple of `together`."""
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (
                epoch,
                plan(*self.store.lengths, self.config, (self.seed, epoch), self.batches_per_step),
            )
        return self._plan[1]


def plan(
    sources: NDArray[np.int32],
    targets: NDArray[np.int32],
    config: BatchingConfig,
    seed: tuple[int, int],
    batches_per_step: int = 1,
) -> list[Rows]:
    """Batches as arrays of row numbers: every row once, shuffled, alike in length within a batch."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(sources))
    batches: list[Rows] = []
    for start in range(0, len(shuffled), config.window):
        window = shuffled[start : start + config.window]
        rows = window[_snake_of_chance(sources[window], targets[window], config.tokens, random)]
        # Encoder and decoder each see one sign more than there are tokens.
        longer = np.maximum(sources[rows], targets[rows]) + 1
        batches += np.split(rows, cuts(longer, config.tokens, first=random.uniform(0.1, 1.0)))
    batches = _divisible(batches, batches_per_step)
    count = len(batches) - len(batches) % batches_per_step
    return [batches[position] for position in random.permutation(len(batches))[:count]]


def snake_order(first: NDArray[np.int32], second: NDArray[np.int32], budget: int, upwards: int = 0) -> Rows:
    """By bands of the first length, and within each by the second, up and down in turn.

    So neighbours are near in both lengths. A band is one length, or several where they are rare, so that it
    fills some batches: in a narrower one, a single batch would hold all the lengths of the other side.
    """
    cells = np.bincount(first, np.maximum(first, second) + 1)
    bands = np.unique((np.cumsum(cells) - cells) // (BAND * budget), return_inverse=True)[1][first]
    widest = int(second.max()) + 1
    turned = np.where(bands % 2 == upwards, second, widest - 1 - second)
    return np.argsort(bands * widest + turned, kind="stable")


def cuts(lengths: NDArray[np.int32], budget: int, first: float = 1.0) -> list[int]:
    """Where to cut a row of sentences into batches within the budget; one beyond it is a batch of its own.

    The first batch gets a share of the budget: drawn anew for each epoch, it shifts all later cuts.
    """
    positions: list[int] = []
    start, room = 0, int(budget * first)
    while start < len(lengths):
        ahead = lengths[start : start + room // int(lengths[start]) + 1]
        cells = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
        start += max(1, int(np.searchsorted(cells, room, side="right")))
        positions.append(start)
        room = budget
    return positions[:-1]


def _snake_of_chance(
    sources: NDArray[np.int32], targets: NDArray[np.int32], budget: int, random: Generator
) -> Rows:
    """One of eight snakes: rare lengths would otherwise meet in the same batches in every epoch."""
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

"""Pairs side by side in rows of one length: hardly any padding, and the same shape in every batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import PackedBatch
from clearhead.data.batching.buckets import BatchingConfig, Encode, Rows
from clearhead.data.store import PairStore, Side

# Pairs that are brought to memory, and cut anew where tokens are split at random, at a time.
CHUNK = 20_000
# More pairs are tried than can fit, so that the last positions are filled too; the others come next.
TRIED = 1.2
Sides = tuple[Side, Side]
Filled = TypeVar("Filled")
Lengths = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Filling:
    """Which pairs lie in which of so many rows of so many positions."""

    pairs: Rows
    rows: Rows
    count: int
    positions: int

    def batch(self, source: Side, target: Side) -> PackedBatch:
        """The pairs themselves, taken from sides that hold them by their numbers."""
        order = np.argsort(self.rows, kind="stable")
        pairs, rows = self.pairs[order], self.rows[order]
        return PackedBatch.lay(source.gather(pairs), target.gather(pairs), rows, self.count, self.positions)

    def shared(self, parts: int) -> list["Filling"]:
        """The rows dealt out into so many fillings of the same shape, the rest of each being empty."""
        mine = [self.rows % parts == part for part in range(parts)]
        return [Filling(self.pairs[m], self.rows[m] // parts, self.count, self.positions) for m in mine]


class PackedBatches:
    """The batches of a store in packed rows, epoch by epoch, for one of several ranks.

    Like those of `Batches`, they follow from (seed, epoch) alone, have every pair once, and can be entered
    anywhere. A step takes `together` of them over all ranks, and an epoch has a multiple of that.
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
        self.encode: Encode = encode or store.gather

    def epoch(self, number: int, skip: int = 0) -> Iterator[PackedBatch]:
        """The batches of an epoch for this rank, without the first `skip` of all ranks together."""
        for position, (filling, sides) in enumerate(in_steps(self._fillings(number), self.batches_per_step)):
            if position % self.ranks == self.rank and position >= skip:
                yield filling.batch(*sides)

    def _fillings(self, number: int) -> Iterator[tuple[Filling, Sides]]:
        random = np.random.default_rng((self.seed, number))
        shuffled = random.permutation(len(self.store))
        sides = Side.of([]), Side.of([])
        for start in range(0, len(shuffled), CHUNK):
            new = self.encode(number, shuffled[start : start + CHUNK])
            sides = Side.joined([sides[0], new[0]]), Side.joined([sides[1], new[1]])
            last = start + CHUNK >= len(shuffled)
            made, left = fillings(sides[0].lengths, sides[1].lengths, self.config, last)
            yield from ((made[position], sides) for position in random.permutation(len(made)))
            sides = sides[0].gather(left), sides[1].gather(left)


def in_steps(
    fillings: Iterator[tuple[Filling, Filled]], batches_per_step: int
) -> Iterator[tuple[Filling, Filled]]:
    """Batches in groups of so many; the last ones are shared out where they would not fill a step."""
    group: list[tuple[Filling, Filled]] = []
    for one in fillings:
        group.append(one)
        if len(group) == batches_per_step:
            yield from group
            group = []
    for position, (filling, filled) in enumerate(group):
        parts = batches_per_step - len(group) + 1 if position == 0 else 1
        yield from ((part, filled) for part in filling.shared(parts))


def fillings(
    sources: NDArray[np.int32], targets: NDArray[np.int32], config: BatchingConfig, last: bool
) -> tuple[list[Filling], Rows]:
    """Pairs by their numbers in rows that they fill, and those that are left over; after the last, none are.

    Rows have the positions that the settings say; the few pairs that are longer get rows of twice as many, or
    four times, filled up with shorter ones, so that there are few shapes.
    """
    # Encoder and decoder each see one sign more than there are tokens.
    longer = np.maximum(sources, targets) + np.int64(1)
    doublings = np.ceil(np.log2(np.maximum(longer / config.row_length, 1))).astype(int)
    made: list[Filling] = []
    left = np.arange(len(longer))
    while len(left):
        # The longest go first; among those of a kind, the order is that of chance.
        left = left[np.argsort(-doublings[left], kind="stable")]
        positions = config.row_length << int(doublings[left[0]])
        count = max(1, config.tokens // positions)
        cells = np.cumsum(longer[left])
        tried = int(np.searchsorted(cells, TRIED * count * positions)) + 1
        if tried > len(left) and not last:
            break
        pairs, others = left[:tried], left[tried:]
        rows = fill(sources[pairs] + 1, targets[pairs] + 1, count, positions)
        placed = rows >= 0
        made.append(Filling(pairs[placed], rows[placed], count, positions))
        left = np.concatenate([pairs[~placed], others])
    return made, left


def fill(sources: NDArray[np.int32], targets: NDArray[np.int32], count: int, positions: int) -> Rows:
    """The row of each pair such that both sides fit; -1 for pairs that find no room.

    The longest pairs are dealt out first, one to a row, and in each round the longest of those that are left
    go to the rows with most room (as in Graham's LPT rule, 1969): those with the longer source to the rows
    with more room for one.
    """
    room = np.full((2, count), positions)
    need = np.stack([sources, targets])
    rows = np.full(len(sources), -1)
    waiting = np.argsort(-need.max(0), kind="stable")
    for start in range(0, len(waiting), count):
        pairs = waiting[start : start + count]
        open_rows = np.argsort(-room.min(0), kind="stable")[: len(pairs)]
        pairs = pairs[np.argsort(need[0, pairs] - need[1, pairs], kind="stable")]
        open_rows = open_rows[np.argsort(room[0, open_rows] - room[1, open_rows], kind="stable")]
        fits = (need[:, pairs] <= room[:, open_rows]).all(0)
        pairs, open_rows = pairs[fits], open_rows[fits]
        rows[pairs] = open_rows
        room[:, open_rows] -= need[:, pairs]
    return rows

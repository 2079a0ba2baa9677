"""Packed batches of pairs: several per row, little padding, and one shape for nearly all batches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import PackedBatch
from clearhead.data.batching.buckets import BatchingConfig, Lengths, PairBatches, Rows
from clearhead.data.batching.plan import whole_steps
from clearhead.data.store import TokenSequences

# Pairs that are loaded, and re-encoded under BPE dropout, at a time.
CHUNK = 20_000
# More pairs are tried than can fit, so that the last positions of a batch fill up too.
OVERSAMPLING = 1.2
Sides = tuple[TokenSequences, TokenSequences]
Packed = TypeVar("Packed")


@dataclass(frozen=True, eq=False)
class Packing:
    """The row of each pair in one batch."""

    pairs: Rows
    rows: Rows
    count: int
    """Number of rows."""
    row_length: int

    def by_row(self) -> tuple[Rows, Rows]:
        """Pairs and their rows, in the order of the rows."""
        order = np.argsort(self.rows, kind="stable")
        return self.pairs[order], self.rows[order]


def divide(plan: tuple[Packing, Packed], parts: int) -> list[tuple[Packing, Packed]]:
    """The rows distributed over several packings of the same shape and data, with empty rows at the end."""
    packing, data = plan
    masks = [packing.rows % parts == part for part in range(parts)]
    divided = (replace(packing, pairs=packing.pairs[m], rows=packing.rows[m] // parts) for m in masks)
    return [(one, data) for one in divided]


class PackedBatches(PairBatches[tuple[Packing, Sides], PackedBatch]):
    """Several pairs per row."""

    def plan(self, epoch: int) -> Iterator[tuple[Packing, Sides]]:
        return whole_steps(self._packings(epoch), self.share.batches_per_step, divide)

    def build(self, epoch: int, plan: tuple[Packing, Sides]) -> PackedBatch:
        packing, (source, target) = plan
        pairs, rows = packing.by_row()
        sides = source.gather(pairs), target.gather(pairs)
        return PackedBatch.pack(*sides, rows, packing.count, packing.row_length)

    def _packings(self, epoch: int) -> Iterator[tuple[Packing, Sides]]:
        random = self.random(epoch)
        shuffled = random.permutation(len(self.store))
        sides = TokenSequences.of([]), TokenSequences.of([])
        for start in range(0, len(shuffled), CHUNK):
            new = self.encode(epoch, shuffled[start : start + CHUNK])
            sides = TokenSequences.joined([sides[0], new[0]]), TokenSequences.joined([sides[1], new[1]])
            last = start + CHUNK >= len(shuffled)
            packings, left = pack_chunk(sides[0].lengths, sides[1].lengths, self.config, last)
            yield from ((packings[index], sides) for index in random.permutation(len(packings)))
            sides = sides[0].gather(left), sides[1].gather(left)


def pack_chunk(
    sources: Lengths, targets: Lengths, config: BatchingConfig, last: bool
) -> tuple[list[Packing], Rows]:
    """Full batches of the pairs with these lengths, and the pairs left over; none after the last chunk.

    Rows have `config.row_length` positions. Longer pairs get rows of two or four times that length, which
    shorter pairs fill up, so that there are few shapes.
    """
    # Encoder and decoder each see one special token in addition.
    longer = np.maximum(sources, targets) + np.int64(1)
    doublings = np.ceil(np.log2(np.maximum(longer / config.row_length, 1))).astype(int)
    packings: list[Packing] = []
    left = np.arange(len(longer))
    while len(left):
        # The longest rows first; the order is random otherwise.
        left = left[np.argsort(-doublings[left], kind="stable")]
        row_length = config.row_length << int(doublings[left[0]])
        count = max(1, config.tokens // row_length)
        cells = np.cumsum(longer[left])
        tried = int(np.searchsorted(cells, OVERSAMPLING * count * row_length)) + 1
        if tried > len(left) and not last:
            break
        pairs, others = left[:tried], left[tried:]
        rows = assign_rows(sources[pairs] + 1, targets[pairs] + 1, count, row_length)
        fits = rows >= 0
        packings.append(Packing(pairs[fits], rows[fits], count, row_length))
        left = np.concatenate([pairs[~fits], others])
    return packings, left


def assign_rows(sources: Lengths, targets: Lengths, count: int, row_length: int) -> NDArray[np.int64]:
    """The row of each pair such that both sides fit; -1 for pairs that fit nowhere.

    In each round the longest remaining pairs go to the rows with most space, one per row (the LPT rule of
    Graham, 1969); pairs with a longer source go to rows with more space for one.
    """
    space = np.full((2, count), row_length)
    need = np.stack([sources, targets])
    rows = np.full(len(sources), -1)
    waiting = np.argsort(-need.max(0), kind="stable")
    for start in range(0, len(waiting), count):
        pairs = waiting[start : start + count]
        open_rows = np.argsort(-space.min(0), kind="stable")[: len(pairs)]
        pairs = pairs[np.argsort(need[0, pairs] - need[1, pairs], kind="stable")]
        open_rows = open_rows[np.argsort(space[0, open_rows] - space[1, open_rows], kind="stable")]
        fits = (need[:, pairs] <= space[:, open_rows]).all(0)
        pairs, open_rows = pairs[fits], open_rows[fits]
        rows[pairs] = open_rows
        space[:, open_rows] -= need[:, pairs]
    return rows

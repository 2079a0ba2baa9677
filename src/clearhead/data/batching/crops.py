"""Which stretches of running text share a batch, the same for the same seed and epoch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from clearhead.config import Settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.batching.packing import CHUNK, Filling, fillings, in_steps
from clearhead.data.delimited import Enclosed
from clearhead.data.text_batch import CropBatch, TextBatch
from clearhead.errors import DataError

# The cells of a batch that is only measured: without gradients there is room.
MEASURED = 8192
Stretches = NDArray[np.int64]
"""Each as document, first position and length."""


class TextBatchingConfig(Settings):
    """How running text is put together."""

    tokens: Annotated[int, Field(gt=0)] = 16384
    """the cells of a batch: rows times positions"""
    kind: Literal["auto", "packed", "crops"] = "auto"
    """documents side by side in rows, none seeing another; or crops of all text end to end; auto: crops of a
    few long texts"""
    row_length: PositiveInt | None = None
    """of a row; left out, as many as the model takes"""

    @property
    def row(self) -> int:
        """The positions of a row, once they are settled."""
        assert self.row_length is not None
        return self.row_length

    @property
    def rows(self) -> int:
        return max(1, self.tokens // self.row)


@dataclass(eq=False)
class Texts:
    """The documents of a store for one of several ranks.

    A step takes `together` batches over all ranks: left out, one each.
    """

    documents: Enclosed
    config: TextBatchingConfig
    seed: int
    rank: int = 0
    ranks: int = 1
    batches_per_step: int = 0

    def __post_init__(self) -> None:
        self.batches_per_step = self.batches_per_step or self.ranks


class PackedTexts(Texts):
    """The documents of a store in packed rows, epoch by epoch, for one of several ranks.

    A document longer than a row is cut into stretches, at other positions in every epoch. Batches follow from
    (seed, epoch) alone, have every token once as a label, and can be entered anywhere. A step takes `together`
    of them over all ranks, and an epoch has a multiple of that.
    """

    def epoch(self, number: int, skip: int = 0) -> Iterator[TextBatch]:
        """The batches of an epoch for this rank, without the first `skip` of all ranks together."""
        random = np.random.default_rng((self.seed, number))
        made = self._fillings(self._shuffled(random), random)
        for position, (filling, stretches) in enumerate(in_steps(made, self.batches_per_step)):
            if position % self.ranks == self.rank and position >= skip:
                yield self._batch(filling, stretches)

    def whole(self) -> Iterator[TextBatch]:
        """Every document once, cut from its beginning on; for measuring."""
        random = np.random.default_rng(0)
        stretches = _stretches(self.documents.lengths - 1, self.config.row, None)
        return (self._batch(*made) for made in self._fillings(stretches, random))

    def _shuffled(self, random: Generator) -> Stretches:
        stretches = _stretches(self.documents.lengths - 1, self.config.row, random)
        return stretches[random.permutation(len(stretches))]

    def _fillings(self, stretches: Stretches, random: Generator) -> Iterator[tuple[Filling, Stretches]]:
        shape = BatchingConfig(tokens=self.config.rows * self.config.row, row_length=self.config.row)
        waiting = stretches[:0]
        for start in range(0, len(stretches), CHUNK):
            waiting = np.concatenate([waiting, stretches[start : start + CHUNK]])
            # As pairs have it: tokens without the sign that is read with them.
            tokens = (waiting[:, 2] - 1).astype(np.int32)
            made, left = fillings(tokens, tokens, shape, last=start + CHUNK >= len(stretches))
            yield from ((made[position], waiting) for position in random.permutation(len(made)))
            waiting = waiting[left]

    def _batch(self, filling: Filling, stretches: Stretches) -> TextBatch:
        order = np.argsort(filling.rows, kind="stable")
        chosen, rows = stretches[filling.pairs[order]], filling.rows[order]
        return TextBatch.lay(self.documents, chosen, rows, filling.count, filling.positions)


class Crops(Texts):
    """Stretches of all documents end to end, epoch by epoch, for one of several ranks.

    An epoch cuts the stream at other positions than the one before, and has every token once but for those that
    would not fill a step. Where the text does not fill one, it is drawn from at random.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ends = np.cumsum(self.documents.lengths)
        self._starts = self._ends - self.documents.lengths
        self.tokens = int(self._ends[-1])
        if self.tokens < 2:
            raise DataError(f"{self.tokens} tokens are no text to learn from; give more")
        self.positions = min(self.config.row, self.tokens - 1)

    def epoch(self, number: int, skip: int = 0) -> Iterator[CropBatch]:
        """The batches of an epoch for this rank, without the first `skip` of all ranks together."""
        for starts in self._plan(number)[skip + self.rank :: self.ranks]:
            yield self._batch(starts, self.positions)

    def whole(self) -> Iterator[CropBatch]:
        """Every token but the first once as a label, in order; for measuring."""
        starts = np.arange(0, self.tokens - 1, self.positions)
        full = starts[starts + self.positions < self.tokens]
        rows = max(self.config.rows, MEASURED // self.positions)
        for first in range(0, len(full), rows):
            yield self._batch(full[first : first + rows], self.positions)
        if len(full) < len(starts):
            yield self._batch(starts[-1:], self.tokens - 1 - int(starts[-1]))

    def _plan(self, number: int) -> NDArray[np.int64]:
        """Where the rows of each batch of each rank begin; the batches are a multiple of `together`."""
        random = np.random.default_rng((self.seed, number))
        step = self.config.rows * self.batches_per_step
        last = self.tokens - 1 - self.positions
        starts = np.arange(random.integers(min(self.positions, last + 1)), last + 1, self.positions)
        steps = len(starts) // step
        shuffled = random.permutation(starts)[: steps * step]
        drawn = shuffled if steps else random.integers(last + 1, size=step)
        return drawn.reshape(-1, self.config.rows)

    def _batch(self, starts: NDArray[np.int64], positions: int) -> CropBatch:
        stream = (starts[:, None] + np.arange(positions + 1)).ravel()
        document = np.searchsorted(self._ends, stream, side="right")
        position = stream - self._starts[document]
        tokens = self.documents.tokens(document, position).reshape(len(starts), -1)
        return CropBatch(torch.from_numpy(tokens))


def _stretches(labels: NDArray[np.int64], max_length: int, random: Generator | None) -> Stretches:
    """Documents with so many labels each, cut into stretches of at most so many; by chance elsewhere."""
    # The first stretch of a document that has to be cut may be shorter, which shifts the others.
    lead = np.where(labels > max_length, max_length, labels)
    if random is not None:
        lead = np.where(labels > max_length, random.integers(1, max_length + 1, size=len(labels)), labels)
    counts = 1 + -(-(labels - lead) // max_length)
    document = np.repeat(np.arange(len(labels)), counts)
    within = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.where(within, lead[document] + (within - 1) * max_length, 0)
    end = np.minimum(lead[document] + within * max_length, labels[document])
    return np.stack([document, start, end - start], axis=1)

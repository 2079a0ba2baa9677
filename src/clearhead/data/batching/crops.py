"""Batches of running text: packed spans of documents, or crops of one token stream."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from clearhead.config import Settings
from clearhead.data.batch import CropBatch, TextBatch
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.batching.packing import CHUNK, Packing, divide, pack_chunk
from clearhead.data.batching.plan import SINGLE, Batch, Plan, PlannedBatches, Share, whole_steps
from clearhead.data.delimited import DelimitedDocuments
from clearhead.errors import DataError

# Minimum tokens of an evaluation batch of crops: without gradients, memory allows more than in training.
EVALUATION_TOKENS = 8192
Spans = NDArray[np.int64]
"""Each as document, first position and length."""


class TextBatchingConfig(Settings):
    """How running text forms batches."""

    tokens: Annotated[int, Field(gt=0)] = 16384
    """size of a batch: rows times positions"""
    kind: Literal["auto", "packed", "crops"] = "auto"
    """packed: several documents per row, each attending only to itself; crops: random spans of the
    concatenated text; auto: crops for a few long texts"""
    row_length: PositiveInt | None = None
    """positions of a row; default: the model's context length"""

    @property
    def row(self) -> int:
        """The resolved row length."""
        assert self.row_length is not None
        return self.row_length

    @property
    def rows(self) -> int:
        return max(1, self.tokens // self.row)


class TextBatches(PlannedBatches[Plan, Batch]):
    """Batches of documents."""

    def __init__(
        self, documents: DelimitedDocuments, config: TextBatchingConfig, seed: int, share: Share = SINGLE
    ):
        super().__init__(seed, share)
        self.documents, self.config = documents, config

    @abstractmethod
    def sequential(self) -> Iterator[Batch]:
        """All text once, in order, for evaluation."""


class PackedTexts(TextBatches[tuple[Packing, Spans], TextBatch]):
    """Several documents per row; every token is a label once per epoch.

    A document longer than a row is cut into spans, at other positions in every epoch.
    """

    def plan(self, epoch: int) -> Iterator[tuple[Packing, Spans]]:
        random = self.random(epoch)
        spans = cut_spans(self.documents.lengths - 1, self.config.row, random)
        packings = pack_spans(spans[random.permutation(len(spans))], self.config, random)
        return whole_steps(packings, self.share.batches_per_step, divide)

    def build(self, epoch: int, plan: tuple[Packing, Spans]) -> TextBatch:
        packing, spans = plan
        chosen, rows = packing.by_row()
        return TextBatch.pack(self.documents, spans[chosen], rows, packing.count, packing.row_length)

    def sequential(self) -> Iterator[TextBatch]:
        spans = cut_spans(self.documents.lengths - 1, self.config.row, None)
        packings = pack_spans(spans, self.config, np.random.default_rng(0))
        return (self.build(0, plan) for plan in packings)


class Crops(TextBatches[NDArray[np.int64], CropBatch]):
    """Spans of the concatenated documents.

    Every epoch cuts the stream at other positions and uses every token once, except for a remainder shorter
    than a step. A text too short for one step is sampled from at random.
    """

    def __init__(
        self, documents: DelimitedDocuments, config: TextBatchingConfig, seed: int, share: Share = SINGLE
    ):
        super().__init__(documents, config, seed, share)
        self._ends = np.cumsum(documents.lengths)
        self._starts = self._ends - documents.lengths
        self.tokens = int(self._ends[-1])
        if self.tokens < 2:
            raise DataError(f"{self.tokens} tokens are too few to train on; give more text")
        self.row_length = min(config.row, self.tokens - 1)

    def plan(self, epoch: int) -> NDArray[np.int64]:
        """The first token of each row of each batch."""
        random = self.random(epoch)
        step = self.config.rows * self.share.batches_per_step
        last = self.tokens - 1 - self.row_length
        starts = np.arange(random.integers(min(self.row_length, last + 1)), last + 1, self.row_length)
        steps = len(starts) // step
        shuffled = random.permutation(starts)[: steps * step]
        sampled = shuffled if steps else random.integers(last + 1, size=step)
        return sampled.reshape(-1, self.config.rows)

    def build(self, epoch: int, plan: NDArray[np.int64]) -> CropBatch:
        return self._crop(plan, self.row_length)

    def sequential(self) -> Iterator[CropBatch]:
        starts = np.arange(0, self.tokens - 1, self.row_length)
        full = starts[starts + self.row_length < self.tokens]
        rows = max(self.config.rows, EVALUATION_TOKENS // self.row_length)
        for first in range(0, len(full), rows):
            yield self._crop(full[first : first + rows], self.row_length)
        if len(full) < len(starts):
            yield self._crop(starts[-1:], self.tokens - 1 - int(starts[-1]))

    def _crop(self, starts: NDArray[np.int64], row_length: int) -> CropBatch:
        stream = (starts[:, None] + np.arange(row_length + 1)).ravel()
        document = np.searchsorted(self._ends, stream, side="right")
        tokens = self.documents.tokens(document, stream - self._starts[document])
        return CropBatch(torch.from_numpy(tokens.reshape(len(starts), -1)))


def pack_spans(
    spans: Spans, config: TextBatchingConfig, random: Generator
) -> Iterator[tuple[Packing, Spans]]:
    """The rows of each batch of spans; each packing numbers the spans beside it."""
    shape = BatchingConfig(tokens=config.rows * config.row, row_length=config.row)
    waiting = spans[:0]
    for start in range(0, len(spans), CHUNK):
        waiting = np.concatenate([waiting, spans[start : start + CHUNK]])
        # `pack_chunk` adds a special token to each length.
        lengths = (waiting[:, 2] - 1).astype(np.int32)
        packings, left = pack_chunk(lengths, lengths, shape, last=start + CHUNK >= len(spans))
        yield from ((packings[index], waiting) for index in random.permutation(len(packings)))
        waiting = waiting[left]


def cut_spans(tokens: NDArray[np.int64], max_length: int, random: Generator | None) -> Spans:
    """Documents with these numbers of tokens, cut into spans of at most `max_length`, at random positions."""
    # The first span of a document that has to be cut may be shorter, which shifts the others.
    lead = np.where(tokens > max_length, max_length, tokens)
    if random is not None:
        lead = np.where(tokens > max_length, random.integers(1, max_length + 1, size=len(tokens)), tokens)
    counts = 1 + -(-(tokens - lead) // max_length)
    document = np.repeat(np.arange(len(tokens)), counts)
    within = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.where(within, lead[document] + (within - 1) * max_length, 0)
    end = np.minimum(lead[document] + within * max_length, tokens[document])
    return np.stack([document, start, end - start], axis=1)

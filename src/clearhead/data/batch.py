"""Batches: frozen dataclasses of tensors, padded or packed, for pairs and for running text."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import TokenSequences
from clearhead.text.tokenizer import BOS, EOS, PAD

# The label of a position that does not count towards the loss; every id from 0 on may be a token.
IGNORE_INDEX = -1
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TensorBatch:
    """Base class of batches. A subclass is a frozen dataclass whose tensors have one entry per row.

    Rows are on axis 0, or on the axis that a field declares: `field(metadata={"batch_axis": 1})`.
    `tokens` and `padding` are counted once, on construction, so that reading them never synchronizes a GPU.
    Override `count_tokens` and `padding_share` where the defaults do not fit.
    """

    static_shape: ClassVar[bool] = False
    """Whether nearly all batches have the same shape, so that CUDA graphs pay off."""
    tokens: int = field(init=False, repr=False)
    """The number of labels; the summed loss is divided by it."""
    padding: float = field(init=False, repr=False)
    """The share of padding among all positions."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", self.count_tokens())
        object.__setattr__(self, "padding", self.padding_share())

    def count_tokens(self) -> int:
        """One label per row."""
        return len(self)

    def padding_share(self) -> float:
        return 0.0

    def __len__(self) -> int:
        """The number of rows."""
        name, axis = next(self._tensor_fields())
        return getattr(self, name).shape[axis]

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same batch with `fn` applied to every tensor."""
        mapped = copy.copy(self)
        for name, _ in self._tensor_fields():
            object.__setattr__(mapped, name, fn(getattr(self, name)))
        return mapped

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin(self) -> Self:
        """The same batch in page-locked memory."""
        return self.map(Tensor.pin_memory)

    def split(self, count: int) -> list[Self]:
        """The rows in `count` batches, or one batch per row if there are fewer rows."""
        if count == 1:
            return [self]
        names, axes = zip(*self._tensor_fields(), strict=True)
        rows = -(-len(self) // min(len(self), count))
        parts = (getattr(self, name).split(rows, axis) for name, axis in zip(names, axes, strict=True))
        return [replace(self, **dict(zip(names, part, strict=True))) for part in zip(*parts, strict=True)]

    def _tensor_fields(self) -> Iterator[tuple[str, int]]:
        """Name and batch axis of each tensor."""
        for one in fields(self):
            if isinstance(getattr(self, one.name, None), Tensor):
                yield one.name, one.metadata.get("batch_axis", 0)


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """One pair per row, padded: sources end with </s>, targets are <s> … </s>, and lengths count these."""

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target"]
    target_lengths: Int[Tensor, " batch"]
    source_tokens: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source_tokens", int(self.source_lengths.sum()))
        super().__post_init__()

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PairBatch":
        """A batch of token ids, given without special tokens and padding."""
        return cls.gather(TokenSequences.of(sources), TokenSequences.of(targets))

    @classmethod
    def gather(cls, source: TokenSequences, target: TokenSequences) -> "PairBatch":
        """All sequences of both sides as one batch."""
        padded = (*_padded(source, ()), *_padded(target, (BOS,)))
        return cls(*map(torch.from_numpy, padded))

    @property
    def inputs(self) -> Int[Tensor, "batch target-1"]:
        """The decoder's input."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "batch target-1"]:
        """The next token at each position of `inputs`."""
        return self.target[:, 1:]

    def count_tokens(self) -> int:
        return int(self.target_lengths.sum()) - len(self)

    def padding_share(self) -> float:
        return 1 - (self.source_tokens + self.tokens) / (self.source.numel() + self.labels.numel())


class Plane:
    """An attribute that is one plane of a batch's `cells`."""

    def __init__(self, index: int):
        self.index = index

    def __get__(self, batch: Any, owner: type | None = None) -> Int[Tensor, "rows positions"]:
        return batch.cells[self.index]


@dataclass(frozen=True)
class PackedBatch(TensorBatch):
    """Several pairs per row; source and target rows have the same length.

    One tensor holds everything, so that one copy moves it. Segments number the pairs of a row from 1; padding
    has segment 0. Positions count from the first token of each pair.
    """

    static_shape = True
    cells: Int[Tensor, "7 rows positions"] = field(metadata={"batch_axis": 1})
    source_tokens: int = field(init=False, repr=False)

    source = Plane(0)
    """The tokens of each pair and </s>."""
    source_segments = Plane(1)
    source_positions = Plane(2)
    inputs = Plane(3)
    """The decoder's input: <s> and the tokens of each pair."""
    labels = Plane(4)
    """The next token at each position of `inputs`: the tokens and </s>."""
    target_segments = Plane(5)
    target_positions = Plane(6)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source_tokens", int((self.source_segments > 0).sum()))
        super().__post_init__()

    @classmethod
    def pack(
        cls, source: TokenSequences, target: TokenSequences, rows: Numbers, count: int, row_length: int
    ) -> "PackedBatch":
        """Pairs in `count` rows; `rows` is the row of each pair, in ascending order."""
        cells = np.full((7, count, row_length), PAD, dtype=np.int32)
        flat = cells.reshape(7, -1)
        for side, planes, shifts in ((source, (0,), (0,)), (target, (3, 4), (1, 0))):
            lengths = side.lengths.astype(np.int64) + 1
            cell, segment, within = packed_cells(lengths, rows, row_length)
            for plane, shift in zip(planes, shifts, strict=True):
                is_token = (within >= shift) & (within < np.repeat(lengths, lengths) - 1 + shift)
                flat[plane, cell[is_token]] = side.ids
                flat[plane, cell[~is_token]] = BOS if shift else EOS
            flat[planes[-1] + 1, cell], flat[planes[-1] + 2, cell] = segment, within
        return cls(torch.from_numpy(cells))

    def count_tokens(self) -> int:
        return int((self.target_segments > 0).sum())

    def padding_share(self) -> float:
        return 1 - (self.source_tokens + self.tokens) / (2 * self.source.numel())


@dataclass(frozen=True)
class TextBatch(TensorBatch):
    """Several spans of documents per row, numbered from 1; padding has number 0.

    One tensor holds everything, so that one copy moves it. Positions count from the start of each span.
    """

    static_shape = True
    cells: Int[Tensor, "4 rows positions"] = field(metadata={"batch_axis": 1})

    inputs = Plane(0)
    labels = Plane(1)
    documents = Plane(2)
    positions = Plane(3)

    @classmethod
    def pack(
        cls, documents: DelimitedDocuments, spans: Numbers, rows: Numbers, count: int, row_length: int
    ) -> "TextBatch":
        """Spans, as (document, first position, length), in `count` rows; `rows` ascends."""
        cells = np.zeros((4, count, row_length), dtype=np.int32)
        cells[0], cells[1] = PAD, IGNORE_INDEX
        flat = cells.reshape(4, -1)
        number, start, lengths = spans.T
        cell, segment, within = packed_cells(lengths, rows, row_length)
        document, position = np.repeat(number, lengths), np.repeat(start, lengths) + within
        labels = documents.tokens(document, position + 1)
        labels[~documents.is_label(document, position + 1)] = IGNORE_INDEX
        flat[0, cell], flat[1, cell] = documents.tokens(document, position), labels
        flat[2, cell], flat[3, cell] = segment, within
        return cls(torch.from_numpy(cells))

    def count_tokens(self) -> int:
        return int((self.labels != IGNORE_INDEX).sum())

    def padding_share(self) -> float:
        return 1 - int((self.documents > 0).sum()) / self.inputs.numel()


@dataclass(frozen=True)
class CropBatch(TensorBatch):
    """One span of a token stream per row; every token but the first of a row is a label."""

    static_shape = True
    ids: Int[Tensor, "rows positions+1"]

    @property
    def inputs(self) -> Int[Tensor, "rows positions"]:
        return self.ids[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "rows positions"]:
        return self.ids[:, 1:]

    def count_tokens(self) -> int:
        return self.labels.numel()


def packed_cells(lengths: Numbers, rows: Numbers, row_length: int) -> tuple[Numbers, Numbers, Numbers]:
    """Each token's cell in a flattened batch, its sequence's number in the row, and its index there."""
    first, first_of_row = np.cumsum(lengths) - lengths, np.searchsorted(rows, rows)
    starts = rows * row_length + first - first[first_of_row]
    segment = np.arange(len(rows)) - first_of_row + 1
    within = np.arange(lengths.sum()) - np.repeat(first, lengths)
    return np.repeat(starts, lengths) + within, np.repeat(segment, lengths), within


def _padded(side: TokenSequences, prefix: tuple[int, ...]) -> tuple[Numbers, Numbers]:
    """The sequences as padded rows with special tokens added, and their lengths."""
    first = len(prefix)
    ends = side.lengths.astype(np.int64) + first
    rows = np.full((len(side), int(ends.max(initial=0)) + 1), PAD, dtype=np.int64)
    columns = np.arange(rows.shape[1])
    rows[:, :first] = prefix
    rows[(columns >= first) & (columns < ends[:, None])] = side.ids
    rows[np.arange(len(side)), ends] = EOS
    return rows, ends + 1

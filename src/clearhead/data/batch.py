"""Batches: frozen groups of sentences as tensors, each sentence in a row of its own or several in one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.store import Side
from clearhead.text.tokenizer import END, PAD, START


@dataclass(frozen=True)
class PairBatch:
    """Sources end with </s>, targets are <s> … </s>, both padded on the right; lengths count these signs."""

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target"]
    target_lengths: Int[Tensor, " batch"]
    source_tokens: int = -1
    tokens: int = -1

    def __post_init__(self) -> None:
        # Counted while the lengths are still on the processor: asking a device later would make it wait.
        if self.source_tokens < 0:
            object.__setattr__(self, "source_tokens", int(self.source_lengths.sum()))
        if self.tokens < 0:
            object.__setattr__(self, "tokens", int(self.target_lengths.sum()) - len(self))

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PairBatch":
        """A batch of plain ids, to which the signs and the padding are added."""
        return cls.gather(Side.of(sources), Side.of(targets))

    @classmethod
    def gather(cls, source: Side, target: Side) -> "PairBatch":
        """All sentences of two sides as one batch."""
        sources, source_lengths = _padded(source, ())
        targets, target_lengths = _padded(target, (START,))
        return cls(
            source=torch.from_numpy(sources),
            source_lengths=torch.from_numpy(source_lengths),
            target=torch.from_numpy(targets),
            target_lengths=torch.from_numpy(target_lengths),
        )

    @property
    def inputs(self) -> Int[Tensor, "batch target-1"]:
        """What the decoder is given."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "batch target-1"]:
        """What the decoder should say to it; `tokens` counts those that are not padding."""
        return self.target[:, 1:]

    @property
    def padding(self) -> float:
        """The share of padded cells among those that encoder and decoder compute."""
        cells = self.source.numel() + self.labels.numel()
        return 1 - (self.source_tokens + self.tokens) / cells

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PairBatch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    @property
    def static_shape(self) -> bool:
        """Nearly every batch has a shape of its own."""
        return False

    def split(self, count: int) -> list["PairBatch"]:
        """Its rows in so many batches, or in one for each row if there are fewer."""
        shares = zip(*(tensor.split(row_share(len(self), count)) for tensor in self._tensors), strict=True)
        return [self] if count == 1 else [PairBatch(*share) for share in shares]

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self.source, self.source_lengths, self.target, self.target_lengths

    def map(self, change: Callable[[Tensor], Tensor]) -> "PairBatch":
        """The same with every tensor changed."""
        return replace(
            self,
            source=change(self.source),
            source_lengths=change(self.source_lengths),
            target=change(self.target),
            target_lengths=change(self.target_lengths),
        )


@dataclass(frozen=True)
class PackedBatch:
    """Pairs side by side in rows, as many positions for the sources as for the targets.

    All is in one tensor, so that it moves at once. A pair's tokens have its number in their row, from 1 on;
    cells without a token have the number 0 and the id of padding. Positions count from the pair's first token.
    """

    cells: Int[Tensor, "7 rows positions"]
    source_tokens: int
    tokens: int

    @classmethod
    def lay(
        cls, source: Side, target: Side, rows: NDArray[np.int64], count: int, positions: int
    ) -> "PackedBatch":
        """Pairs in the rows that are given for them, in ascending order, of so many rows in all."""
        cells = np.full((7, count, positions), PAD, dtype=np.int32)
        number = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
        flat = cells.reshape(7, -1)
        for side, tokens, ids in ((source, (0,), ((),)), (target, (3, 4), ((START,), ()))):
            lengths = side.lengths.astype(np.int64) + 1
            first = np.cumsum(lengths) - lengths
            starts = rows * positions + first - first[np.searchsorted(rows, rows)]
            within = np.arange(lengths.sum()) - np.repeat(first, lengths)
            cell = np.repeat(starts, lengths) + within
            for plane, before in zip(tokens, ids, strict=True):
                shift = len(before)
                token = (within >= shift) & (within < np.repeat(lengths, lengths) - 1 + shift)
                flat[plane, cell[token]] = side.ids
                flat[plane, cell[~token]] = START if shift else END
            flat[tokens[-1] + 1, cell] = np.repeat(number, lengths)
            flat[tokens[-1] + 2, cell] = within
        sizes = (len(side.ids) + len(side) for side in (source, target))
        return cls(torch.from_numpy(cells), *map(int, sizes))

    @property
    def source(self) -> Int[Tensor, "rows positions"]:
        """Tokens and </s> of each pair."""
        return self.cells[0]

    @property
    def source_segments(self) -> Int[Tensor, "rows positions"]:
        return self.cells[1]

    @property
    def source_positions(self) -> Int[Tensor, "rows positions"]:
        return self.cells[2]

    @property
    def inputs(self) -> Int[Tensor, "rows positions"]:
        """What the decoder is given: <s> and the tokens of each pair."""
        return self.cells[3]

    @property
    def labels(self) -> Int[Tensor, "rows positions"]:
        """What the decoder should say to it: the tokens and </s>."""
        return self.cells[4]

    @property
    def target_segments(self) -> Int[Tensor, "rows positions"]:
        return self.cells[5]

    @property
    def target_positions(self) -> Int[Tensor, "rows positions"]:
        return self.cells[6]

    @property
    def padding(self) -> float:
        """The share of cells without a token among those that encoder and decoder compute."""
        return 1 - (self.source_tokens + self.tokens) / (2 * self.source.numel())

    def __len__(self) -> int:
        """How many rows there are."""
        return self.cells.shape[1]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PackedBatch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    @property
    def static_shape(self) -> bool:
        """Nearly all batches have the same shape."""
        return True

    def split(self, count: int) -> list["PackedBatch"]:
        """Its rows in so many batches, or in one for each row if there are fewer."""
        if count == 1:
            return [self]
        shares = self.cells.split(row_share(len(self), count), dim=1)
        return [PackedBatch(share, *(int((share[plane] > 0).sum()) for plane in (1, 5))) for share in shares]

    def map(self, change: Callable[[Tensor], Tensor]) -> "PackedBatch":
        """The same with every tensor changed."""
        return replace(self, cells=change(self.cells))


def row_share(rows: int, count: int) -> int:
    """How many rows each of so many parts has; the last may have fewer."""
    return -(-rows // min(rows, count))


def _padded(side: Side, before: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sentences as rows, each with its signs; and their lengths, signs counted."""
    first = len(before)
    ends = side.lengths.astype(np.int64) + first
    rows = np.full((len(side), int(ends.max(initial=0)) + 1), PAD, dtype=np.int64)
    columns = np.arange(rows.shape[1])
    rows[:, :first] = before
    rows[(columns >= first) & (columns < ends[:, None])] = side.ids
    rows[np.arange(len(side)), ends] = END
    return rows, ends + 1

"""Batches of running text: documents side by side in rows, or crops of one stream of tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import row_share
from clearhead.data.delimited import Enclosed
from clearhead.text.tokenizer import PAD

# The label of a position at which nothing is learned; no id, as every id may be a token.
IGNORED = -1


@dataclass(frozen=True)
class TextBatch:
    """Stretches of documents side by side in rows, each with its number in its row, from 1 on.

    All is in one tensor, so that it moves at once: what a model reads, what it should say to it, the numbers,
    and the positions, which count from where a stretch begins. Cells without a token have the number 0.
    """

    cells: Int[Tensor, "4 rows positions"]
    tokens: int
    """The tokens that are learned."""
    filled: int
    """The cells with a token."""

    @classmethod
    def lay(
        cls,
        documents: Enclosed,
        stretches: NDArray[np.int64],
        rows: NDArray[np.int64],
        count: int,
        positions: int,
    ) -> "TextBatch":
        """Stretches, as (document, first position, length), in the rows given for them in ascending order."""
        cells = np.zeros((4, count, positions), dtype=np.int32)
        cells[0], cells[1] = PAD, IGNORED
        flat = cells.reshape(4, -1)
        number, start, lengths = stretches.T
        first = np.cumsum(lengths) - lengths
        before = np.searchsorted(rows, rows)
        within = np.arange(lengths.sum()) - np.repeat(first, lengths)
        cell = np.repeat(rows * positions + first - first[before], lengths) + within
        document, position = np.repeat(number, lengths), np.repeat(start, lengths) + within
        labels = documents.tokens(document, position + 1)
        labels[~documents.learned(document, position + 1)] = IGNORED
        flat[0, cell], flat[1, cell] = documents.tokens(document, position), labels
        flat[2, cell], flat[3, cell] = np.repeat(np.arange(len(rows)) - before + 1, lengths), within
        return cls(torch.from_numpy(cells), int((labels != IGNORED).sum()), len(cell))

    @property
    def inputs(self) -> Int[Tensor, "rows positions"]:
        return self.cells[0]

    @property
    def labels(self) -> Int[Tensor, "rows positions"]:
        return self.cells[1]

    @property
    def documents(self) -> Int[Tensor, "rows positions"]:
        return self.cells[2]

    @property
    def positions(self) -> Int[Tensor, "rows positions"]:
        return self.cells[3]

    @property
    def padding(self) -> float:
        """The share of cells without a token."""
        return 1 - self.filled / self.inputs.numel()

    @property
    def static_shape(self) -> bool:
        """All batches have the same shape."""
        return True

    def __len__(self) -> int:
        """How many rows there are."""
        return self.cells.shape[1]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "TextBatch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def map(self, change: Callable[[Tensor], Tensor]) -> "TextBatch":
        """The same with every tensor changed."""
        return replace(self, cells=change(self.cells))

    def split(self, count: int) -> list["TextBatch"]:
        """Its rows in so many batches, or in one for each row if there are fewer."""
        if count == 1:
            return [self]
        shares = self.cells.split(row_share(len(self), count), dim=1)
        return [
            TextBatch(share, int((share[1] != IGNORED).sum()), int((share[2] > 0).sum())) for share in shares
        ]


@dataclass(frozen=True)
class CropBatch:
    """Stretches of one stream of tokens, a row each; every token but the first of a row is learned."""

    ids: Int[Tensor, "rows positions+1"]

    @property
    def inputs(self) -> Int[Tensor, "rows positions"]:
        return self.ids[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "rows positions"]:
        return self.ids[:, 1:]

    @property
    def tokens(self) -> int:
        """The tokens that are learned."""
        return self.labels.numel()

    @property
    def padding(self) -> float:
        """There is none."""
        return 0.0

    @property
    def static_shape(self) -> bool:
        """All batches have the same shape."""
        return True

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.ids)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "CropBatch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def map(self, change: Callable[[Tensor], Tensor]) -> "CropBatch":
        """The same with its tensor changed."""
        return CropBatch(change(self.ids))

    def split(self, count: int) -> list["CropBatch"]:
        """Its rows in so many batches, or in one for each row if there are fewer."""
        return [self] if count == 1 else list(map(CropBatch, self.ids.split(row_share(len(self), count))))

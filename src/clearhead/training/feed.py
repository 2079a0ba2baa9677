"""Endless batches, and the position of a run in the data."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from clearhead.errors import TrainingError

Batch = TypeVar("Batch")


class Feed(Generic[Batch]):
    """Yields batches epoch after epoch; `position` follows the last one.

    `epoch(number, skip)` yields the batches of an epoch without the first `skip`. Both count the batches of
    all ranks: each batch of one rank counts as `ranks` batches.
    """

    def __init__(
        self,
        epoch: Callable[[int, int], Iterator[Batch]],
        number: int = 0,
        consumed: int = 0,
        ranks: int = 1,
    ):
        self.number = number
        self.consumed = consumed
        self.ranks = ranks
        self._epoch = epoch
        self._batches = epoch(number, consumed)

    @property
    def position(self) -> dict[str, int]:
        """The epoch and its batches so far; `Feed(epoch, **position)` continues from here."""
        return {"number": self.number, "consumed": self.consumed}

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        for batch in self._batches:
            self.consumed += self.ranks
            return batch
        if self.consumed == 0:
            raise TrainingError(f"epoch {self.number}: no batches; no data is left after cleaning")
        self.number, self.consumed = self.number + 1, 0
        self._batches = self._epoch(self.number, 0)
        return next(self)

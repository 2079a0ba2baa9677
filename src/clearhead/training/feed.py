"""Batches without end, and the place in the data where a run stands."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from clearhead.errors import TrainingError

Batch = TypeVar("Batch")


class Feed(Generic[Batch]):
    """Gives batches epoch after epoch; `position` is the place after the last one given.

    `epoch(number, skip)` gives the batches of an epoch without the first `skip`. Both count those of all
    ranks: where several share an epoch, each batch given to one stands for as many.
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
        """Epoch and batches of it already given; `Feed(epoch, **position)` goes on from here."""
        return {"number": self.number, "consumed": self.consumed}

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        for batch in self._batches:
            self.consumed += self.ranks
            return batch
        if self.consumed == 0:
            raise TrainingError(f"epoch {self.number}: no batches; the corpus is empty after cleaning")
        self.number, self.consumed = self.number + 1, 0
        self._batches = self._epoch(self.number, 0)
        return next(self)

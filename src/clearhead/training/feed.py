"""Endless batches with the position of a run in the data, also prepared in the background."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Generic, TypeVar

from clearhead.errors import TrainingError

Batch = TypeVar("Batch")
# Batches prepared in advance: enough to bridge a slow one at the end of a chunk or an epoch.
AHEAD = 16


class Feed(Generic[Batch]):
    """Yields batches epoch after epoch; `position` follows the last one.

    `epoch(number, skip)` yields the batches of an epoch without the first `skip`. Both count the batches of
    all ranks: each batch of one rank counts as `ranks` batches.
    """

    def __init__(
        self, epoch: Callable[[int, int], Iterator[Batch]], number: int = 0, consumed: int = 0, ranks: int = 1
    ):
        self.number, self.consumed, self.ranks = number, consumed, ranks
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


class Prefetcher(Generic[Batch]):
    """A feed whose thread is some batches ahead; `position` still follows the last batch yielded."""

    def __init__(self, feed: Feed[Batch], prepare: Callable[[Batch], Batch]):
        self.position = feed.position
        self._queue: Queue[tuple[Batch, dict[str, int]] | BaseException] = Queue(AHEAD)
        self._closed = threading.Event()
        # A daemon, so that a process that ends without closing does not wait for it.
        self._thread = threading.Thread(target=self._fill, args=(feed, prepare), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        found = self._queue.get()
        if isinstance(found, BaseException):
            self._queue.put(found)
            raise found
        batch, self.position = found
        return batch

    def close(self) -> None:
        """Stops the thread and waits for it: one still running when Python exits can abort the process."""
        self._closed.set()
        while self._thread.is_alive():
            # It may be waiting for a free slot.
            with suppress(Empty):
                self._queue.get(timeout=0.01)

    def _fill(self, feed: Feed[Batch], prepare: Callable[[Batch], Batch]) -> None:
        try:
            for batch in feed:
                self._queue.put((prepare(batch), feed.position))
                if self._closed.is_set():
                    return
        except BaseException as error:
            self._queue.put(error)

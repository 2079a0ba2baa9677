"""Batches prepared in the background while a device computes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Generic, TypeVar

from clearhead.training.feed import Feed

Batch = TypeVar("Batch")
# Enough to bridge a slow batch at the end of a chunk or an epoch.
AHEAD = 16


class Prefetcher(Generic[Batch]):
    """A feed that is some batches ahead; `position` still follows the last batch yielded."""

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
        """Stops the thread and waits for it.

        A thread inside of a library when Python exits can abort the whole process.
        """
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

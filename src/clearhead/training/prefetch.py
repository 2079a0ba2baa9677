"""Batches made ready in the background while a device computes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Generic, TypeVar

from clearhead.training.feed import Feed

Batch = TypeVar("Batch")
# Enough that a late batch, after the end of a chunk or an epoch, is not missed.
READY = 16


class Prefetcher(Generic[Batch]):
    """A feed that is some batches ahead; `position` is still the place after the last one given."""

    def __init__(self, feed: Feed[Batch], prepare: Callable[[Batch], Batch]):
        self.position = feed.position
        self._queue: Queue[tuple[Batch, dict[str, int]] | BaseException] = Queue(READY)
        self._closed = threading.Event()
        # A daemon: a process that ends without closing need not wait for it.
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
        """Ends the work in the background; returns when nobody is at it any more.

        A thread that is inside of a library when Python ends can abort the whole process.
        """
        self._closed.set()
        while self._thread.is_alive():
            # It may be waiting for room.
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

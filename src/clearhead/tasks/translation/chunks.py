"""Streams in chunks."""

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from clearhead.errors import ClearheadError

T = TypeVar("T")


def in_chunks(items: Iterator[T], size: int) -> Iterator[tuple[list[T], ClearheadError | None]]:
    """The items in chunks; the last one comes with the error that ended the stream, if any."""
    while True:
        chunk: list[T] = []
        problem = None
        try:
            for item in islice(items, size):
                chunk.append(item)
        except ClearheadError as error:
            problem = error
        if chunk or problem:
            yield chunk, problem
        if problem or len(chunk) < size:
            return

"""What a search tells those who capture it: its steps, which rows continue which, and where hypotheses end.

A search computes one position at a time and reorders its rows in between. A capture that listens can put
together what belongs to the hypotheses that the search returned.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor


class End(NamedTuple):
    """The last step of a returned hypothesis, counted from 1, and its row in that step."""

    step: int
    row: int


class SearchLog:
    """The steps of a search so far; a pass outside a search has step 0 only."""

    def __init__(self) -> None:
        self.step = 0
        """The current step; before the first, the source or prompt is read."""
        self.moves: list[tuple[int, Int[Tensor, " rows"]]] = []
        """After a step, row i continued row rows[i]."""
        self.ends: list[End] | None = None
        """Of each sentence, once the search is over."""

    def row(self, end: End, step: int) -> int:
        """The row that a hypothesis had in an earlier step."""
        row = end.row
        for after, rows in reversed(self.moves):
            if step <= after < end.step:
                row = int(rows[row])
        return row


class SearchListener:
    """Holds the log of the search that runs, and a new one when it is over."""

    def __init__(self) -> None:
        self.log = SearchLog()


_listeners: ContextVar[tuple[SearchListener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening() -> Iterator[SearchListener]:
    """A listener to all searches until the context ends."""
    listener = SearchListener()
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield listener
    finally:
        _listeners.reset(token)


def is_listened_to() -> bool:
    """Whether a capture listens to the searches that run now."""
    return bool(_listeners.get())


def begin_step() -> None:
    """Tells listeners that a search computes its next step."""
    for listener in _listeners.get():
        listener.log.step += 1


def rows_moved(rows: Int[Tensor, " rows"]) -> None:
    """Tells listeners that row i now continues row rows[i]."""
    for listener in _listeners.get():
        listener.log.moves.append((listener.log.step, rows))


def end_search(steps: int, ends: Sequence[tuple[int, int]]) -> None:
    """Tells listeners that a search is over after some steps, with the last step and row of each sentence."""
    for listener in _listeners.get():
        # An earlier search that was abandoned may have left its steps in the log.
        before = listener.log.step - steps
        listener.log.ends = [End(before + step, row) for step, row in ends]
        listener.log = SearchLog()

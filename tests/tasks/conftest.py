"""Runs that end: by themselves, or because somebody presses Ctrl-C."""

import signal
from collections.abc import Iterable, Iterator

from clearhead.tasks.events import Event, Finished
from clearhead.training import Report


def finish(events: Iterable[Event]) -> Finished:
    """The end of a run."""
    *_, last = events
    assert isinstance(last, Finished)
    return last


def interrupted_at(steps: set[int], events: Iterator[Event]) -> Finished:
    """The end of a run to which Ctrl-C is pressed during each of these steps."""
    last = None
    for last in events:
        if isinstance(last, Report) and last.step in steps:
            signal.raise_signal(signal.SIGINT)
    assert isinstance(last, Finished)
    return last

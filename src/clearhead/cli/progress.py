"""Progress on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

from clearhead.cli.options import rank, say

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 10.0
MEGABYTE = 1_000_000
# What is smaller is read before anybody wonders.
LARGE = 10 * MEGABYTE


class Progress:
    """How far a job of known or unknown length has come."""

    def __init__(self, what: str, unit: str, transient: bool = False):
        self.what, self.unit, self.transient = what, unit, transient
        self.total: int | None = None
        self._began = self._said = monotonic()
        self._before = 0
        self._bar = None

    def __enter__(self) -> "Progress":
        return self

    def begin(self, total: int | None, before: int = 0) -> None:
        """The work starts now, after what was done before; until then nothing is shown."""
        self.total, self._before, self._began = total, before, monotonic()
        if sys.stderr.isatty() and not rank():
            self._bar = _bar(self.what, total, self.transient)

    def __exit__(self, *exception: object) -> None:
        if self._bar:
            self._bar[0].stop()

    def at(self, done: int, details: str = "") -> None:
        """`done` of the total; the rate leaves out what was done before."""
        now = monotonic()
        rate = (done - self._before) / max(now - self._began, 1e-9)
        left = f", {duration((self.total - done) / rate)} left" if self.total and rate else ""
        text = f"{rate:.1f} {self.unit}/s{left}{'  ' + details if details else ''}"
        if self._bar:
            bar, task = self._bar
            bar.update(task, completed=done, details=text)
        elif now - self._said >= SECONDS_BETWEEN_LINES or done == self.total:
            self._said = now
            say(f"{self.what} {done:,}{f' of {self.total:,}' if self.total else ''}: {text}")


class Reading:
    """How far files are read: a bar for each pass over them, where they are large and somebody looks on."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if total < LARGE or not sys.stderr.isatty():
            return
        if self._progress is None and done < total:
            self._progress = Progress("reading", "MB", transient=True)
            self._progress.begin(total // MEGABYTE)
        if self._progress:
            self._progress.at(done // MEGABYTE)
            if done == total:
                self._progress.__exit__()
                self._progress = None


def tracked(items: Iterable[T], what: str, total: int | None, unit: str) -> Iterator[T]:
    """The items, with progress."""
    with Progress(what, unit) as progress:
        progress.begin(total)
        for number, item in enumerate(items, start=1):
            yield item
            progress.at(number)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds as a person says them."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


def _bar(what: str, total: int | None, transient: bool):
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(what),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[details]}"),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=transient)
    task = bar.add_task(what, total=total, details="")
    bar.start()
    return bar, task

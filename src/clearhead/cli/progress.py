"""Progress on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from clearhead.cli.options import rank, say

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 10.0
# What has just begun tells nothing of the speed: the first block of a file is read before it is worked on.
SECONDS_BEFORE_RATE = 2.0
# Of the bar, so that the count, the time left and a loss stand beside it in 80.
COLUMNS = 16
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
            self.at(before)
            self._bar[0].start()

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        """The bar stays as it is; what is written from now on stands below it."""
        if self._bar:
            self._bar[0].stop()
            self._bar = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside there is no bar, so that a result can be written where it was."""
        if self._bar is None:
            yield
            return
        live = self._bar[0].live
        live.transient = True
        live.stop()
        yield
        live.transient = self.transient
        live.start()

    def at(self, done: int, *details: str) -> None:
        """`done` of the total, the more important details first; the rate leaves out what was done before."""
        now = monotonic()
        rate = (done - self._before) / max(now - self._began, 1e-9)
        speed = f"{rate:.1f} {self.unit}/s"
        left = f"{duration((self.total - done) / rate)} left" if self.total and rate else ""
        if self._bar:
            bar, task = self._bar
            known = now - self._began >= SECONDS_BEFORE_RATE
            first, *others = details or ("",)
            parts = (left, first, speed, *others) if known else details
            count = f"{done:,}{f'/{self.total:,}' if self.total else ''} {self.unit}"
            room = bar.console.width - len(f"{self.what}  {count} ") - COLUMNS
            bar.update(task, completed=done, count=count, details=_fitting(parts, room))
        elif now - self._said >= SECONDS_BETWEEN_LINES or done == self.total:
            self._said = now
            text = "  ".join((f"{speed}, {left}" if left else speed, *details))
            say(f"{self.what} {done:,}{f' of {self.total:,}' if self.total else ''}: {text}")


class Reading:
    """How far files are read: a bar for each pass over them, where they are large and somebody looks on."""

    def __init__(self, what: str = "reading") -> None:
        self.what = what
        """What the files are read for."""
        self._progress: Progress | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if total < LARGE or not sys.stderr.isatty():
            return
        if done < self._done:
            self._end()  # a new pass, with a speed of its own
        self._done = done
        if self._progress is None and done < total:
            self._progress = Progress(self.what, "MB", transient=True)
            self._progress.begin(total // MEGABYTE)
        if self._progress:
            self._progress.at(done // MEGABYTE)
            if done == total:
                self._end()

    def _end(self) -> None:
        if self._progress:
            self._progress.end()
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


def _fitting(parts: Iterable[str], room: int) -> str:
    """The parts up to the first that has no room; they are whole or not there."""
    text = ""
    for part in filter(None, parts):
        longer = f"{text}  {part}" if text else part
        if len(longer) > room:
            break
        text = longer
    return text


def _bar(what: str, total: int | None, transient: bool):
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(what, markup=False),
        BarColumn(bar_width=COLUMNS),
        TextColumn("{task.fields[count]}", markup=False),
        TextColumn("{task.fields[details]}", markup=False),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=transient)
    task = bar.add_task(what, total=total, count="", details="")
    return bar, task

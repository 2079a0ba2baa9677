"""Progress on stderr: a bar with rates and time left on a terminal, occasional lines elsewhere."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

from clearhead.cli.console import print_status, rank
from clearhead.wording import counted, plural

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BEFORE_RATE = 2.0
"""Before that, the rate of a bar means little."""
BAR_WIDTH = 16
"""Columns, so that count, time left and loss fit beside it into 80."""
MEGABYTE = 1_000_000
LARGE = 10 * MEGABYTE
"""Bytes below which reading takes no noticeable time."""


class Progress:
    """Progress of a job of known or unknown length, counted in units such as "step"."""

    def __init__(self, label: str, unit: str, transient: bool = False):
        self.label, self.unit, self.transient = label, unit, transient
        self.total: int | None = None
        self._started = self._printed = monotonic()
        self._initial = self._done = 0
        self._written: Counter[str] = Counter()
        self._bar = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self, total: int | None, initial: int = 0) -> None:
        """Start the clock, and show the bar; a resumed job has `initial` units done."""
        self.total, self._initial, self._started = total, initial, monotonic()
        self._written.clear()
        if sys.stderr.isatty() and not rank():
            self._bar = _bar(self.label, total, self.transient)
            self.update(initial)
            self._bar[0].start()

    def stop(self) -> None:
        """Leave the bar as it is; later messages appear below it."""
        if self._bar:
            self._bar[0].stop()
            self._bar = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Inside, the bar is hidden, so that results can be printed."""
        if self._bar is None:
            yield
            return
        live = self._bar[0].live
        live.transient = True
        live.stop()
        yield
        live.transient = self.transient
        live.start()

    def add(self, **units: int) -> None:
        """Count what was written, such as `sentence=1, token=20`; rates are then those of these units."""
        self._written.update(units)

    def rates(self) -> list[str]:
        """The mean rates so far, such as "2.0 steps/s"."""
        return self._rates(monotonic())

    def summary(self) -> str:
        """What was written, in what time, and the rates."""
        written = " and ".join(counted(count, unit) for unit, count in self._written.items())
        return f"{written} in {format_duration(monotonic() - self._started)}: {', '.join(self.rates())}"

    def took_long(self) -> bool:
        """Whether so much time has passed that a line about it is welcome."""
        return monotonic() - self._started >= SECONDS_BETWEEN_LINES

    def update(self, done: int, *details: str, seconds_left: float | None = None) -> None:
        """Show that `done` units are done, and details, the most important first.

        The time left is the given one, or what the mean rate so far suggests.
        """
        now, units = monotonic(), plural(self.unit)
        self._done = done
        rate = (done - self._initial) / max(now - self._started, 1e-9)
        if seconds_left is None and self.total and rate:
            seconds_left = (self.total - done) / rate
        left = f"{format_duration(seconds_left)} left" if seconds_left is not None else ""
        if self._bar:
            bar, task = self._bar
            first, *others = details or ("",)
            known = now - self._started >= SECONDS_BEFORE_RATE
            parts = (left, first, *self._rates(now), *others) if known else details
            count = f"{done:,}{f'/{self.total:,}' if self.total else ''} {units}"
            width = bar.console.width - len(f"{self.label}  {count} ") - BAR_WIDTH
            bar.update(task, completed=done, count=count, details=_fit(parts, width))
        elif now - self._printed >= SECONDS_BETWEEN_LINES or done == self.total:
            self._printed = now
            count = f"{self.unit} {done:,}{f' of {self.total:,}' if self.total else ''}"
            print_status(f"{count}: {', '.join(filter(None, (*self._rates(now), left, *details)))}")

    def _rates(self, now: float) -> list[str]:
        counts = self._written or {self.unit: self._done - self._initial}
        seconds = max(now - self._started, 1e-9)
        return [f"{format_rate(count / seconds)} {plural(unit)}/s" for unit, count in counts.items()]


class FileProgress:
    """Progress of reading large files, called with bytes read and bytes in all; one bar per pass."""

    def __init__(self, label: str = "reading") -> None:
        self.label = label
        self._progress: Progress | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if total < LARGE or not sys.stderr.isatty():
            return
        if done < self._done:
            self._stop()  # a new pass over the files
        self._done = done
        if self._progress is None and done < total:
            self._progress = Progress(self.label, "MB", transient=True)
            self._progress.start(total // MEGABYTE)
        if self._progress:
            self._progress.update(done // MEGABYTE)
            if done == total:
                self._stop()

    def _stop(self) -> None:
        if self._progress:
            self._progress.stop()
            self._progress = None


def format_duration(seconds: float) -> str:
    """A duration such as "1 min 05 s"."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


def format_rate(rate: float) -> str:
    """A rate such as "9.5" or "1,234"."""
    return f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def _fit(parts: Iterable[str], width: int) -> str:
    """As many parts as fit into the width, none of them cut."""
    text = ""
    for part in filter(None, parts):
        longer = f"{text}  {part}" if text else part
        if len(longer) > width:
            break
        text = longer
    return text


def _bar(label: str, total: int | None, transient: bool):
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(label, markup=False),
        BarColumn(bar_width=BAR_WIDTH),
        TextColumn("{task.fields[count]}", markup=False),
        TextColumn("{task.fields[details]}", markup=False),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=transient)
    return bar, bar.add_task(label, total=total, count="", details="")

"""How far the reading of files has come, told to whoever follows it."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, cast

# Is told how many bytes of the files are read, and how many they have; packed ones as they lie on the disk.
ProgressCallback = Callable[[int, int], None]


class Reading:
    """Passes over files, counted in bytes."""

    def __init__(self, total: int, follow: ProgressCallback):
        self.total, self.done = total, 0
        self._follow = follow
        self._begun: set[Path] = set()

    def begin(self, path: Path) -> None:
        """A file is opened; where it was before, a new pass begins."""
        if path in self._begun:
            self._begun.clear()
            self.done = 0
        self._begun.add(path)

    def add(self, count: int) -> None:
        """So many more are read."""
        self.done += count
        self._follow(self.done, self.total)


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)


def unfollowed(done: int, total: int) -> None:
    """Follows nothing."""


@contextmanager
def followed(paths: Iterable[Path], follow: ProgressCallback) -> Iterator[None]:
    """Inside, `follow` is told of what is read of these files; that all is over is told at the end."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    token = _reading.set(Reading(total, follow))
    try:
        yield
    finally:
        _reading.reset(token)
        follow(total, total)


def opened_raw(path: Path) -> BinaryIO:
    """The bytes of a file as they lie on the disk, counted where somebody follows."""
    reading = _reading.get()
    if reading is None:
        return path.open("rb")
    reading.begin(path)
    return io.BufferedReader(_Counted(path, reading))


def count_share(path: Path, part: int, whole: int) -> None:
    """Tells of a file that a library reads by itself: a part of the whole has come from it."""
    if (reading := _reading.get()) and whole:
        reading.add(path.stat().st_size * part // whole)


class _Counted(io.FileIO):
    """A file that tells how much is read of it."""

    def __init__(self, path: Path, reading: Reading):
        super().__init__(path)
        self._reading = reading

    def readinto(self, buffer) -> int:
        count = cast(int, super().readinto(buffer))
        self._reading.add(count)
        return count

"""Progress of reading files, reported to a callback."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, cast

ProgressCallback = Callable[[int, int], None]
"""Receives the bytes read so far and the total; of compressed files, bytes on disk."""


class ReadProgress:
    """Counts the bytes read in a pass over files."""

    def __init__(self, total: int, callback: ProgressCallback):
        self.total, self.done, self._callback = total, 0, callback
        self._opened: set[Path] = set()

    def open(self, path: Path) -> None:
        """Notes that a file is opened; opening one again starts a new pass."""
        if path in self._opened:
            self._opened, self.done = set(), 0
        self._opened.add(path)

    def add(self, count: int) -> None:
        self.done += count
        self._callback(self.done, self.total)


_progress: ContextVar[ReadProgress | None] = ContextVar("progress", default=None)


def ignore_progress(done: int, total: int) -> None:
    """A callback that does nothing."""


@contextmanager
def track_progress(paths: Iterable[Path], callback: ProgressCallback) -> Iterator[None]:
    """Reports to `callback` how much of these files is read inside the block, and completion at its end."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    token = _progress.set(ReadProgress(total, callback))
    try:
        yield
    finally:
        _progress.reset(token)
        callback(total, total)


def open_tracked(path: Path) -> BinaryIO:
    """The raw bytes of a file, counted inside `track_progress`."""
    progress = _progress.get()
    if progress is None:
        return path.open("rb")
    progress.open(path)
    return io.BufferedReader(_TrackedFile(path, progress))


def count_share(path: Path, part: int, whole: int) -> None:
    """Counts a share of a file that another library reads."""
    if (progress := _progress.get()) and whole:
        progress.add(path.stat().st_size * part // whole)


class _TrackedFile(io.FileIO):
    def __init__(self, path: Path, progress: ReadProgress):
        super().__init__(path)
        self._progress = progress

    def readinto(self, buffer) -> int:
        count = cast(int, super().readinto(buffer))
        self._progress.add(count)
        return count

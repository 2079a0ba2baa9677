"""Document files: read line by line with their line ends, written part by part."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from clearhead.data.sources.streams import MAX_LINE, UTF_16, nul_bytes, undecodable
from clearhead.errors import DataError, SettingsError
from clearhead.files import check_output
from clearhead.text.blocks import Format

PLAIN_TEXT = (".txt", ".text")


def format_of(path: Path) -> Format:
    """Markdown, unless the file is named as plain text."""
    return "text" if path.suffix.lower() in PLAIN_TEXT else "markdown"


def check_document(path: Path, out: Path | None = None) -> int:
    """The number of lines; raises DataError or SettingsError if the file cannot be read or `out` not written.

    Reads the whole file, so that an error in its last line is reported before the first is translated.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is a pipe or a device; write the text to a file first")
    if out is not None:
        _check_out(path, out)
    count = sum(1 for _ in document_lines(path))
    if not count:
        raise DataError(f"{path}: is empty; name another file")
    return count


def _check_out(path: Path, out: Path) -> None:
    if out.exists() and path.exists() and out.samefile(path):
        raise SettingsError(f"--out {out}: is the document itself; choose another file")
    if out.exists() and not out.is_file() and not out.is_dir():
        raise SettingsError(f"--out {out}: is not a regular file; choose another, or omit it to print")
    check_output(out)


def document_lines(path: Path) -> Iterator[str]:
    """The lines of a file with their line ends; a byte order mark stays at the start of the first."""
    offset = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), b""), start=1):
                if len(line) == MAX_LINE:
                    raise DataError(
                        f"{path}, line {number}: longer than {MAX_LINE} bytes; is this a text file?"
                    )
                if b"\0" in line:
                    raise nul_bytes(path, number, is_utf_16=number == 1 and line.startswith(UTF_16))
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    raise undecodable(path, number, line[error.start], offset + error.start) from None
                offset += len(line)
                # A file of an old Macintosh has no other line ends.
                yield from (
                    text.splitlines(keepends=True) if "\r" in text[:-2] and "\n" not in text else [text]
                )
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def partial_path(out: Path) -> Path:
    """Where a translation is until it is complete."""
    return out.with_name(out.name + ".partial")


@contextmanager
def writing(out: Path) -> Iterator[Callable[[str], None]]:
    """A function that appends to a file, which has another name until it is complete.

    After an error or an interruption, what was written stays there.
    """
    unfinished = partial_path(out)
    with _explained(unfinished):
        stream = unfinished.open("wb", buffering=0)  # closing it has nothing left to write
    with stream:

        def write(text: str) -> None:
            rest = memoryview(text.encode())
            with _explained(unfinished):
                while rest:
                    rest = rest[stream.write(rest) :]

        yield write
        with _explained(unfinished):
            os.fsync(stream.fileno())
    with _explained(unfinished):
        unfinished.replace(out)


@contextmanager
def _explained(unfinished: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kept = f"; what was translated is kept in {unfinished}" if unfinished.exists() else ""
        raise DataError(f"{unfinished}: cannot be written ({error.strerror or error}){kept}") from None

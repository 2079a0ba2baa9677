"""Streams of the command line: results on stdout, messages on stderr, input texts from stdin."""

import io
import json
import os
import select
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from clearhead.errors import DataError


def rank() -> int:
    """The number of this process under torchrun, else 0; only rank 0 prints."""
    number = os.environ.get("RANK", "")
    return int(number) if number.isdecimal() else 0


def print_status(text: str) -> None:
    """Print a message or progress line to stderr, so that stdout holds nothing but results."""
    if not rank():
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def print_result(result: str | dict[str, Any]) -> None:
    """Print a line of text, or an object as a line of JSON, to stdout."""
    write_result((result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)) + "\n")


def write_result(text: str) -> None:
    """Write a part of a result to stdout at once, in UTF-8 whatever the locale."""
    if rank():
        return
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise DataError(f"stdout: cannot be written ({error.strerror}); redirect it elsewhere") from None


def discard_output() -> None:
    """Redirect stdout to the null device, because Python would fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output_closed() -> bool:
    """Whether the reader of stdout or stderr, such as `head`, has closed its end of the pipe."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def read_stdin(name: str) -> str:
    """All of stdin as one text, with line ends as in training files and without the last one."""
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(f"no {name}: pass one as an argument, or a file with < FILE")
    content = sys.stdin.buffer.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise DataError(f"stdin: not UTF-8 ({byte}); save it as UTF-8") from None
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True).removesuffix("\n")


def read_lines() -> Iterator[str]:
    """The lines of stdin, without their line ends."""
    if sys.stdin is None:
        raise DataError("stdin: is closed; pass texts as arguments, or a file with < FILE")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x}"
            raise DataError(f"stdin, line {number}: not UTF-8 ({byte}); save it as UTF-8") from None


def utf8_arguments(texts: Iterable[str], name: str) -> Iterator[str]:
    """The texts; raises DataError at one whose bytes are not UTF-8, which Python passes as surrogates."""
    for number, text in enumerate(texts, start=1):
        if not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text):
            raise DataError(f"{name} {number}: not UTF-8; encode it as UTF-8")
        yield text


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts in lists of `size`, the last of which may be shorter; reads no further than one list."""
    stream = iter(texts)
    return iter(lambda: list(islice(stream, size)), [])

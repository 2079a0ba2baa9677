"""Files as streams of bytes or lines: packed or not, and everything wrong with one said by file and line."""

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from clearhead.data.progress import opened_raw
from clearhead.errors import DataError

PACKED = (".gz", ".xz", ".zst")
LONGEST_LINE = 1 << 24
CHUNK = 1 << 20


def ending(path: Path) -> str:
    """What the file holds, by its name without the ending of a packer: 'x.TSV.gz' is '.tsv'."""
    return (Path(path.stem) if packing(path) else path).suffix.lower()


def packing(path: Path) -> str:
    """The ending of the packer, or nothing."""
    return path.suffix.lower() if path.suffix.lower() in PACKED else ""


def check_lasts(path: Path) -> None:
    """Refuses what can be read but once, such as pipes."""
    if str(path) == "-" and not path.exists():
        raise DataError("-: standard input can be read but once; write it to a file first")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: a pipe or a device can be read but once; write it to a file first")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file; whatever the system or the packer finds wrong becomes a DataError."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    try:
        with opened_raw(path) as packed, io.BufferedReader(_unpacked(packed, path), CHUNK) as stream:
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zstandard.ZstdError) as error:
        raise DataError(f"{path}: cut short or not a {path.suffix} file ({_first_line(error)})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text without their ends; LF or CRLF, with or without a byte order mark."""
    number = 0
    with opened(path) as stream:
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), start=1):
            if b"\0" in line:
                raise DataError(
                    f"{path}, line {number}: holds NUL bytes, so it is no UTF-8 text; convert it first"
                )
            if len(line) == LONGEST_LINE:
                raise DataError(f"{path}, line {number}: longer than {LONGEST_LINE} bytes; is this a text?")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start]
                raise DataError(
                    f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8"
                ) from None
            yield text.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise DataError(f"{path}: is empty")


def content_hash(path: Path) -> str:
    """The SHA-256 of a file as it lies on disk."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _unpacked(packed: BinaryIO, path: Path) -> io.RawIOBase:
    # A buffered reader around gzip and lzma makes reading line by line several times faster.
    match packing(path):
        case ".gz":
            return cast(io.RawIOBase, gzip.GzipFile(fileobj=packed))
        case ".xz":
            return cast(io.RawIOBase, lzma.LZMAFile(packed))
        case ".zst":
            return ZstandardFile(packed)
        case _:
            return cast(io.RawIOBase, packed)


class ZstandardFile(io.RawIOBase):
    """Unpacks frame after frame; zstandard's own reader takes a file cut short for a whole one."""

    def __init__(self, packed: BinaryIO):
        self._packed = packed
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._waiting = b""
        self._started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._waiting:
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._started = zstandard.ZstdDecompressor().decompressobj(), False
            # In small bites: a few bytes may unpack to a great deal, all at once.
            packed = packed or self._packed.read(1 << 12)
            if not packed:
                if self._started:
                    raise EOFError("the last frame has no end")
                return 0
            self._started = True
            self._waiting = self._frame.decompress(packed)
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

"""Files, compressed or not, as streams of bytes or lines; errors name the file and the line."""

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

from clearhead.data.progress import open_tracked
from clearhead.errors import DataError

COMPRESSED = (".gz", ".xz", ".zst")
# The byte order marks of UTF-16.
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
MAX_LINE = 1 << 24
CHUNK = 1 << 20


def suffix(path: Path) -> str:
    """The suffix of the file type, without that of a compressor: '.tsv' for 'x.TSV.gz'."""
    return (Path(path.stem) if compression(path) else path).suffix.lower()


def compression(path: Path) -> str:
    """The suffix of the compressor, or an empty string."""
    return path.suffix.lower() if path.suffix.lower() in COMPRESSED else ""


def check_rereadable(path: Path) -> None:
    """Raises DataError for pipes and other files that can be read only once."""
    if str(path) == "-" and not path.exists():
        raise DataError("-: standard input can be read only once; write it to a file first")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: a pipe or a device can be read only once; write it to a file first")


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file; raises DataError if it cannot be read."""
    with _reading(path):
        try:
            with open_tracked(path) as raw, io.BufferedReader(_decompressed(raw, path), CHUNK) as stream:
                yield cast(BinaryIO, stream)
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zstandard.ZstdError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"{path}: cut short or not a {path.suffix} file ({reason})") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raises DataError if the file cannot be read."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text without LF or CRLF, and without a byte order mark."""
    number = offset = 0
    with open_file(path) as stream:
        for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), b""), start=1):
            if b"\0" in line:
                raise nul_bytes(path, number, is_utf_16=number == 1 and line.startswith(UTF_16))
            if len(line) == MAX_LINE:
                where = f"{path}, line {number}"
                raise DataError(
                    f"{where}: longer than {MAX_LINE >> 20} MB; put each sentence on its own line"
                )
            try:
                text = line.decode("utf-8-sig" if number == 1 and encoding == "utf-8" else encoding)
            except UnicodeDecodeError as error:
                raise undecodable(path, number, line[error.start], offset + error.start, encoding) from None
            offset += len(line)
            yield text.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise DataError(f"{path}: is empty; name another file")


class UndecodableError(DataError):
    """A text has another encoding."""


def nul_bytes(path: Path, line: int, is_utf_16: bool = False) -> DataError:
    if is_utf_16:
        return DataError(f"{path}: is UTF-16; save the file as UTF-8 (iconv -f UTF-16 -t UTF-8 OLD > NEW)")
    return DataError(f"{path}, line {line}: contains NUL bytes, so it is not UTF-8 text; convert it first")


def undecodable(path: Path, line: int, byte: int, offset: int, encoding: str = "utf-8") -> UndecodableError:
    name = encoding.upper()
    found = f"byte 0x{byte:02x} at offset {offset:,}"
    return UndecodableError(f"{path}, line {line}: not {name} ({found}); save the file as {name}")


def content_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes on disk."""
    with _reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _decompressed(raw: BinaryIO, path: Path) -> io.RawIOBase:
    # A buffered reader around gzip and lzma makes reading line by line several times faster.
    match compression(path):
        case ".gz":
            return cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))
        case ".xz":
            return cast(io.RawIOBase, lzma.LZMAFile(raw))
        case ".zst":
            return ZstandardFile(raw)
        case _:
            return cast(io.RawIOBase, raw)


class ZstandardFile(io.RawIOBase):
    """Decompresses frame by frame; unlike zstandard's own reader, it notices a truncated file."""

    def __init__(self, raw: BinaryIO):
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._buffered = b""
        self._started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._buffered:
            data = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._started = zstandard.ZstdDecompressor().decompressobj(), False
            # Few bytes at a time: they may decompress to very many.
            data = data or self._raw.read(1 << 12)
            if not data:
                if self._started:
                    raise EOFError("the last frame has no end")
                return 0
            self._started = True
            self._buffered = self._frame.decompress(data)
        count = min(len(buffer), len(self._buffered))
        buffer[:count], self._buffered = self._buffered[:count], self._buffered[count:]
        return count

"""Plain text as documents, in chunks, so that no whole file is held in memory."""

import codecs
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from clearhead.data.sources.streams import UTF_16, nul_bytes, open_file, undecodable
from clearhead.text.normalize import without_surrogates

# Bytes that are read at once, and the most characters of a chunk.
READ_SIZE = 1 << 16
MAX_CHUNK = 1 << 20


class TextChunk(NamedTuple):
    """A part of a document, cut before a space if possible, so that no word is split."""

    text: str
    last: bool
    """Whether the document ends here."""


# Stands for a document of nothing but whitespace.
BLANK = TextChunk("", last=True)


def read_plain_text(path: Path, field: str | None = None) -> Iterator[TextChunk]:
    """A file as one document."""
    return document(_decoded(path))


def text_documents(texts: Iterable[tuple[str, ...]]) -> Iterator[TextChunk]:
    """Each text, a tuple of one string, as a document."""
    return chain.from_iterable(document(map(without_surrogates, text)) for text in texts)


def document(texts: Iterator[str]) -> Iterator[TextChunk]:
    """The consecutive parts of one document as chunks."""
    chunks = cut(texts)
    previous = next(chunks, "")
    blank = previous.isspace() or not previous
    for text in chunks:
        yield TextChunk(previous, last=False)
        previous, blank = text, False
    yield BLANK if blank else TextChunk(previous, last=True)


def cut(texts: Iterator[str]) -> Iterator[str]:
    """The same text in pieces that end before a space, or where they grow too long."""
    kept = ""
    for text in texts:
        kept += text
        end = len(kept) if len(kept) > MAX_CHUNK else _last_space(kept)
        if end and len(kept) >= READ_SIZE:
            yield kept[:end]
            kept = kept[end:]
    while kept:
        yield kept[:MAX_CHUNK]
        kept = kept[MAX_CHUNK:]


def _last_space(text: str) -> int:
    """Where the last run of whitespace that follows a word begins; 0 if there is none."""
    index = max(text.rfind(" "), text.rfind("\n"))
    while index > 0 and text[index - 1].isspace():
        index -= 1
    return max(index, 0)


def _decoded(path: Path) -> Iterator[str]:
    """The text of a UTF-8 file, without a byte order mark and with LF line ends."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    line, offset = 1, 0
    with open_file(path) as stream:
        while True:
            chunk = stream.read(READ_SIZE)
            if b"\0" in chunk:
                is_utf_16 = offset == 0 and chunk.startswith(UTF_16)
                raise nul_bytes(path, line + chunk[: chunk.index(b"\0")].count(b"\n"), is_utf_16)
            offset += len(chunk)
            try:
                yield decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                at = offset - len(error.object) + error.start
                raise undecodable(path, line, error.object[error.start], at) from None
            if not chunk:
                return
            line += chunk.count(b"\n")

"""Plain text as documents: files, folders, JSON lines and Parquet, as streams that hold no whole file."""

import codecs
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from clearhead.data.datasets import SHIPPED_TEXTS, shipped_file
from clearhead.data.sources.columns import listed
from clearhead.data.sources.streams import check_lasts, content_hash, ending, opened, packing
from clearhead.data.sources.tables import read_fields
from clearhead.errors import DataError
from clearhead.text.normalize import without_surrogates

# Bytes that are read at once, and with what is kept back the most characters of a piece.
CHUNK = 1 << 16
LONGEST_PIECE = 1 << 20
# What is taken in a folder; a file that is named may end in anything.
ENDINGS = (".txt", ".text", ".md", ".jsonl", ".ndjson", ".parquet")
# Under which names a record usually keeps its text.
FIELDS = ("text", "content", "document", "body")


class Piece(NamedTuple):
    """A stretch of a document, cut before a blank where there is one, so that no word lies in two."""

    text: str
    last: bool
    """Whether its document ends with it."""


# What stands for a document in which nothing is written.
BLANK = Piece("", last=True)


def read_documents(places: Iterable[str | Path], field: str | None = None) -> Iterator[Piece]:
    """The documents of files, of folders of them and of shipped texts; blank ones are left out.

    A plain file is a document, and so is a line of JSON and a row of Parquet: of these, a field is read.
    """
    return (piece for piece in read_records(places, field) if piece != BLANK)


def read_records(places: Iterable[str | Path], field: str | None = None) -> Iterator[Piece]:
    """The same with the blank ones, for counting them."""
    for place in places:
        for path in files(place):
            yield from _read(path, field)


def files(place: str | Path) -> list[Path]:
    """The files that a place stands for, in the order of their names."""
    path = Path(place)
    if _is_shipped(place):
        return [shipped_file(str(place))]
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.rglob("*") if one.is_file() and ending(one) in ENDINGS)
    if not found:
        raise DataError(
            f"{path}: no text in this folder; files must end in {', '.join(ENDINGS)} (also .gz, .xz, .zst), "
            "or be named one by one"
        )
    return found


def check_texts(places: Iterable[str | Path]) -> None:
    """Refuses at once what would be missed only after long work."""
    for place in places:
        check_lasts(Path(place))
        if not Path(place).exists() and not _is_shipped(place):
            raise DataError(f"{place}: no such file or folder; shipped texts are {', '.join(SHIPPED_TEXTS)}")


def texts_hash(place: str | Path) -> str:
    """A hash of what a place holds, of folders file by file."""
    return "+".join(f"{ending(path)}{packing(path)}:{content_hash(path)}" for path in files(place))


def _is_shipped(place: str | Path) -> bool:
    return str(place) in SHIPPED_TEXTS and not Path(place).exists()


def _read(path: Path, field: str | None) -> Iterator[Piece]:
    choose: Callable[[list[str]], Sequence[str]] = lambda have: [_field(path, have, field)]  # noqa: E731
    match ending(path):
        case ".jsonl" | ".ndjson":
            texts = read_fields(path, choose)
        case ".parquet":
            # Imported only when needed: pyarrow is slow to load.
            from clearhead.data.sources.parquet import read_columns

            texts = read_columns(path, choose)
        case _:
            return _document(cut(_decoded(path)))
    return chain.from_iterable(_document(cut(map(without_surrogates, text))) for text in texts)


def _field(path: Path, have: list[str], asked: str | None) -> str:
    found = asked or next((name for name in FIELDS if name in have), None)
    if found is None or found not in have:
        what = f"no field '{asked}'" if asked else "which field holds the text is unclear"
        pairs = {"prompt", "answer"} <= {*have} and not asked
        raise DataError(
            f"{path}: {what}; it has {listed(have)}; name one "
            "(train: --set data.field=NAME, evaluate: --field NAME)"
            + (", or learn the answers (train: --set data.template='{prompt} {answer}')" if pairs else "")
        )
    return found


def _document(texts: Iterator[str]) -> Iterator[Piece]:
    """Texts as the pieces of a document."""
    before = next(texts, "")
    blank = before.isspace() or not before
    for text in texts:
        yield Piece(before, last=False)
        before, blank = text, False
    yield BLANK if blank else Piece(before, last=True)


def cut(texts: Iterator[str]) -> Iterator[str]:
    """The same text in pieces that end before a blank, or where they grow too long."""
    kept = ""
    for text in texts:
        kept += text
        place = len(kept) if len(kept) > LONGEST_PIECE else _before_blank(kept)
        if place and len(kept) >= CHUNK:
            yield kept[:place]
            kept = kept[place:]
    while kept:
        yield kept[:LONGEST_PIECE]
        kept = kept[LONGEST_PIECE:]


def _before_blank(text: str) -> int:
    """Where the last blanks that follow a word begin; 0 where there are none."""
    place = max(text.rfind(" "), text.rfind("\n"))
    while place > 0 and text[place - 1].isspace():
        place -= 1
    return max(place, 0)


def _decoded(path: Path) -> Iterator[str]:
    """A UTF-8 file as it is, but without a byte order mark, and with LF as the end of every line."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    line = 1
    with opened(path) as stream:
        while chunk := stream.read(CHUNK):
            if b"\0" in chunk:
                number = line + chunk[: chunk.index(b"\0")].count(b"\n")
                raise DataError(
                    f"{path}, line {number}: holds NUL bytes, so it is no UTF-8 text; convert it first"
                )
            try:
                yield decoder.decode(chunk)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, line, error) from None
            line += chunk.count(b"\n")
        try:
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, line, error) from None


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> DataError:
    number = line + error.object[: error.start].count(b"\n")
    byte = error.object[error.start]
    return DataError(f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8")

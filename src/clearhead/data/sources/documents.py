"""Documents from text files, folders of them, or shipped texts."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS, Dataset, is_shipped, shipped_file
from clearhead.data.sources import READERS
from clearhead.data.sources.plain_text import BLANK, TextChunk, read_plain_text, text_documents
from clearhead.data.sources.streams import check_rereadable, compression, content_hash, suffix
from clearhead.errors import DataError

# In a folder of texts, these are most likely settings.
ONLY_BY_NAME = (".json",)
TABLES = (".tsv", ".csv")
"""Files with columns, of which one holds the text."""


def read_documents(paths: Iterable[str | Path], field: str | None = None) -> Iterator[TextChunk]:
    """The documents of all files, without blank ones.

    A plain file is one document; a line of JSON or a row of Parquet is one, too, of which `field` is read.
    """
    return (chunk for chunk in read_all_documents(paths, field) if chunk != BLANK)


def read_all_documents(paths: Iterable[str | Path], field: str | None = None) -> Iterator[TextChunk]:
    """The documents of all files; a blank one is the chunk `BLANK`."""
    for path in paths:
        for file in files(path):
            reader = READERS.get(suffix(file))
            yield from (reader.documents if reader and reader.documents else read_plain_text)(file, field)


def read_column(path: Path, column: int | str) -> Iterator[TextChunk]:
    """The documents in a column of a table, numbered from 0 or named; a blank one is the chunk `BLANK`."""
    reader = READERS[suffix(path)]
    assert reader.pairs is not None
    return text_documents((pair.source,) for pair in reader.pairs(path, ("", ""), (column, column)))


def read_lines(path: Path) -> Iterator[TextChunk]:
    """The lines of a plain text file, each as a document; a blank one is the chunk `BLANK`."""
    rest = ""
    for chunk in read_plain_text(path):
        *lines, rest = (rest + chunk.text).split("\n")
        yield from text_documents((line,) for line in lines)
        if chunk.last and rest:
            yield from text_documents([(rest,)])


def check_tables(
    paths: Iterable[str | Path], column: int | str | None, option: str = "--set data.field=NUMBER"
) -> None:
    """Raises DataError for a table if no column is named; `option` names one."""
    for file in (file for path in paths for file in files(path)):
        if suffix(file) in TABLES and column is None:
            raise DataError(
                f"{file}: has columns; name the one that holds the text, by its number from 0 or its name: "
                f"{option}"
            )


def files(path: str | Path) -> list[Path]:
    """The files behind a path, in the order of their names; in a folder, those with a known suffix."""
    if is_shipped(path, SHIPPED | SHIPPED_TEXTS):
        return [shipped_file(str(path))]
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    known = [name for name, reader in READERS.items() if reader.documents and name not in ONLY_BY_NAME]
    found = sorted(file for file in folder.rglob("*") if file.is_file() and suffix(file) in known)
    if not found:
        raise DataError(
            f"{folder}: no text in this folder; files must end in {', '.join(known)} (also .gz, .xz, .zst), "
            "or be named one by one"
        )
    return found


def check_texts(paths: Iterable[str | Path], shipped: dict[str, Dataset] = SHIPPED_TEXTS) -> None:
    """Raises DataError for missing and unusable files, before any long work."""
    for path in paths:
        check_rereadable(Path(path))
        if not Path(path).exists() and not is_shipped(path, shipped):
            raise DataError(f"{path}: no such file or folder; shipped texts are {', '.join(shipped)}")


def texts_hash(path: str | Path) -> str:
    """A hash of the files' bytes, file by file for a folder."""
    return "+".join(f"{suffix(file)}{compression(file)}:{content_hash(file)}" for file in files(path))

"""Labelled texts from files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clearhead.data.sources import READERS
from clearhead.data.sources.columns import Columns
from clearhead.data.sources.labelled import (
    Example,
    NoColumnError,
    line_examples,
    table_names,
    usual_names,
)
from clearhead.data.sources.streams import check_rereadable, compression, content_hash, suffix
from clearhead.errors import DataError

__all__ = [
    "Example",
    "NoColumnError",
    "check_examples",
    "examples_hash",
    "read_examples",
    "table_names",
    "usual_names",
]


def read_examples(
    path: str | Path, columns: Columns | None = None, encoding: str = "utf-8"
) -> Iterator[Example]:
    """The texts of a file with their labels.

    Columns are indices from 0 or names in the header, that of the label first. The default is the columns
    with usual names, or else the longest column as text. A file without a known suffix has a label, a space
    and a text in each line.
    """
    file = Path(path)
    reader = READERS.get(suffix(file))
    return (reader.examples if reader and reader.examples else line_examples)(file, columns, encoding)


def check_examples(paths: Iterable[str]) -> None:
    """Raises DataError for missing and unusable files, before any long work."""
    for path in map(Path, paths):
        check_rereadable(path)
        if not path.exists():
            raise DataError(f"{path}: no such file; 'clearhead data get' downloads public data sets")


def examples_hash(path: str | Path) -> str:
    """A hash of the file's bytes, and how they are read."""
    file = Path(path)
    return f"{suffix(file)}{compression(file)}:{content_hash(file)}"

"""Labelled texts in tables, JSON Lines, Parquet, or lines that begin with a label."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from clearhead.data.sources.columns import TEXT_FIELDS, Column, Columns, listed, usual_name
from clearhead.data.sources.headers import PEEKED, detect_header
from clearhead.data.sources.jsonl import read_fields
from clearhead.data.sources.parquet import read_columns
from clearhead.data.sources.streams import lines, suffix
from clearhead.data.sources.tables import Rows, csv_rows, separators, tsv_rows
from clearhead.errors import DataError
from clearhead.text.normalize import without_surrogates
from clearhead.wording import counted

# The usual names of the two columns.
LABELS = ("label", "labels", "class", "category", "sentiment", "target")
TEXTS = (*TEXT_FIELDS, "review", "sentence", "question", "comment")


class NoColumnError(DataError):
    """A file lacks a column."""

    def __init__(self, where: str, column: Column, names: Sequence[str], likely: Sequence[str] = ()):
        missing = f"'{column}'" if isinstance(column, str) else f"{column} (numbered from 0)"
        super().__init__(f"{where}: no column {missing}; it has {listed(names)}")
        self.names = tuple(names)
        self.likely = tuple(likely or names[:2])
        """Those of label and text, most likely."""


class Example(NamedTuple):
    """A text with its label, or a tuple of all its labels."""

    label: str | tuple[str, ...]
    text: str

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,) if isinstance(self.label, str) else self.label


def tsv_examples(path: Path, columns: Columns | None, encoding: str) -> Iterator[Example]:
    return _examples(path, tsv_rows(path, encoding), columns)


def csv_examples(path: Path, columns: Columns | None, encoding: str) -> Iterator[Example]:
    return _examples(path, csv_rows(path, encoding), columns)


def line_examples(path: Path, columns: Columns | None, encoding: str) -> Iterator[Example]:
    """Lines of a label, a space and a text; a file with a tab in its first line is a table."""
    if "\t" in next(lines(path, encoding), ""):
        return tsv_examples(path, columns, encoding)
    numbered = enumerate(lines(path, encoding), start=1)
    rows = ((number, list(line.partition(" ")[::2])) for number, line in numbered if line.strip())
    return _examples(path, rows, columns or (0, 1))


def jsonl_examples(path: Path, columns: Columns | None, encoding: str) -> Iterator[Example]:
    for label, text in read_fields(path, lambda names: _named(path, names, columns), labels=True):
        clean = without_surrogates(label) if isinstance(label, str) else tuple(map(without_surrogates, label))
        yield Example(clean, without_surrogates(text))


def parquet_examples(path: Path, columns: Columns | None, encoding: str) -> Iterator[Example]:
    records = read_columns(path, lambda names: _named(path, names, columns), labels=True)
    return (Example(*record) for record in records)


def _examples(path: Path, rows: Rows, columns: Columns | None) -> Iterator[Example]:
    """Two columns of the rows; a first row that holds their names is a header."""
    peeked = list(islice(rows, PEEKED))
    if not peeked:
        raise DataError(f"{path}: is empty; name another file")
    first, header = peeked[0][0], [name.strip() for name in peeked[0][1]]
    below, usual = [row for _, row in peeked[1:]], usual_names(header)
    chosen: Sequence[int | str] | None = columns or usual or _guessed([header, *below])
    separator = separators(path)
    for name in chosen or ("label", "text"):
        if len(header) == 1:
            raise DataError(f"{path}, line {first}: only one column; separate label and text by {separator}")
        if name not in (header if isinstance(name, str) else range(len(header))):
            raise NoColumnError(f"{path}, line {first}", name, header)
    assert chosen is not None
    named = any(isinstance(name, str) for name in chosen)
    label, text = (header.index(name) if isinstance(name, str) else name for name in chosen)
    header_found = named or usual is not None or _is_header(header, below, label)
    if header_found and columns is None and usual is None:
        raise NoColumnError(f"{path}, line {first}", "label", header, _likely(header, below))
    needed = max(label, text) + 1
    for number, row in chain(peeked[1:] if header_found else peeked, rows):
        if len(row) < needed:
            raise DataError(
                f"{path}, line {number}: {counted(len(row), 'column')} where {needed} are needed; "
                f"separate them by {separator}"
            )
        if any(field.strip() for field in row[len(header) :]):
            raise DataError(
                f"{path}, line {number}: {counted(len(row), 'column')}, but line {first} has {len(header)}; "
                + ("quote fields with commas" if separator == "commas" else "remove the tabs in fields")
            )
        yield Example(row[label].strip(), row[text])


def table_names(path: Path, encoding: str) -> tuple[str, str] | None:
    """The usual names of label and text in the header of a table, if it has them."""
    rows = {".tsv": tsv_rows, ".csv": csv_rows}.get(suffix(path))
    first = next(rows(path, encoding), None) if rows else None
    return usual_names([name.strip() for name in first[1]]) if first else None


def usual_names(names: Sequence[str]) -> tuple[str, str] | None:
    """The names of label and text among those of a file, if it has usual ones."""
    label, text = usual_name(names, LABELS), usual_name(names, TEXTS)
    return (label, text) if label and text else None


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]], label: int) -> bool:
    """Whether a row names columns: it looks like names, and its label is that of no row below."""
    labels = {row[label].strip() for row in below if len(row) > label}
    return bool(below) and first[label] not in labels and detect_header(first, below) != "data"


def _likely(names: Sequence[str], below: Sequence[Sequence[str]]) -> list[str]:
    """The names that label and text most likely have: of the fewest different values, and of the longest."""
    columns = [[row[number] for row in below if len(row) > number] for number in range(len(names))]
    text = max(range(len(names)), key=lambda number: sum(map(len, columns[number])))
    others = [number for number in range(len(names)) if number != text]
    label = min(others, key=lambda number: (len({*columns[number]}) < 2, len({*columns[number]})))
    return [names[label], names[text]]


def _guessed(rows: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Without a header, the longest column is the text, and the first other one the label."""
    width = min(map(len, rows))
    if width < 2:
        return None
    text = max(range(width), key=lambda column: sum(len(row[column]) for row in rows))
    return (1 if text == 0 else 0, text)


def _named(path: Path, names: list[str], columns: Columns | None) -> tuple[str, str]:
    """The names of the two columns of a file whose records have names."""
    chosen = columns or usual_names(names) or ("label", "text")
    label, text = (names[one] if isinstance(one, int) and one < len(names) else str(one) for one in chosen)
    for name in (label, text):
        if name not in names:
            raise NoColumnError(str(path), name, names)
    return label, text

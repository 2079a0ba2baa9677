"""Pairs in tab- or comma-separated tables, or in two aligned files."""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, listed, named_languages, usual_columns
from clearhead.data.sources.streams import lines, suffix
from clearhead.errors import DataError
from clearhead.wording import counted

Rows = Iterator[tuple[int, list[str]]]


def read_tsv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns separated by tabs; quotes have no special meaning."""
    return _pairs(path, tsv_rows(path), languages, columns)


def read_csv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns separated by commas; a quoted field may hold commas, doubled quotes and line ends."""
    return _pairs(path, csv_rows(path), languages, columns)


def tsv_languages(path: Path) -> tuple[str, str] | None:
    return named_languages(next(lines(path), "").split("\t"))


def csv_languages(path: Path) -> tuple[str, str] | None:
    return named_languages(next(lines(path), "").replace('"', "").split(","))


def read_aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Pairs of the lines with the same number in two files."""
    ours, theirs = lines(source), lines(target)
    sources = targets = 0
    for line in ours:
        sources += 1
        if (other := next(theirs, None)) is None:
            break
        targets += 1
        yield Pair(line, other)
    sources, targets = sources + sum(1 for _ in ours), targets + sum(1 for _ in theirs)
    if sources != targets:
        raise DataError(
            f"{source} has {counted(sources, 'line')} but {target} has {targets}; "
            "aligned files need the same number"
        )


def tsv_rows(path: Path, encoding: str = "utf-8") -> Rows:
    """The fields of each line that is not blank, with its number."""
    numbered = enumerate(lines(path, encoding), start=1)
    return ((number, line.split("\t")) for number, line in numbered if line.strip())


def csv_rows(path: Path, encoding: str = "utf-8") -> Rows:
    """The fields of each record, with the number of its last line."""
    reader = csv.reader((line + "\n" for line in lines(path, encoding)), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            where = f"{path}, line {reader.line_num}"
            raise DataError(f"{where}: not valid CSV ({error}); check the quotes") from None
        if row:
            yield reader.line_num, row


def _pairs(path: Path, rows: Rows, languages: tuple[str, str], columns: Columns | None) -> Iterator[Pair]:
    """Two columns of the rows; a first row that holds their names is a header."""
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: is empty; name another file")
    header = [name.strip() for name in first[1]]
    names = columns or usual_columns(header, languages) or (0, 1)
    for name in names:
        if isinstance(name, str) and name not in header:
            raise DataError(f"{path}, line {first[0]}: no column '{name}'; it has {listed(header)}")
    if not any(isinstance(name, str) for name in names):
        rows = chain([first], rows)
    source, target = (header.index(name) if isinstance(name, str) else name for name in names)
    needed = max(source, target) + 1
    for number, row in rows:
        if len(row) < needed:
            separator = "commas" if suffix(path) == ".csv" else "tabs"
            raise DataError(
                f"{path}, line {number}: {counted(len(row), 'column')} where {needed} are needed; "
                f"separate them by {separator}"
            )
        yield Pair(row[source], row[target])

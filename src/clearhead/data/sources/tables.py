"""Pairs in tables, separated by tabs or as CSV, or in two aligned files."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import (
    Columns,
    ColumnsError,
    columns_setting,
    listed,
    named_languages,
    usual_columns,
)
from clearhead.data.sources.headers import PEEKED, detect_header, holds_text, likely_text_columns
from clearhead.data.sources.streams import lines, suffix
from clearhead.errors import DataError
from clearhead.wording import counted

Rows = Iterator[tuple[int, list[str]]]
# What may separate the columns of a CSV file; of equally likely ones, the first is meant.
DELIMITERS = (",", ";", "\t", "|")
# The first line that names the delimiter to Excel.
SEP = re.compile(r"sep=(.)", re.IGNORECASE)


def read_tsv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns separated by tabs; quotes have no special meaning."""
    return _pairs(path, tsv_rows(path), languages, columns)


def read_csv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns separated by commas, semicolons, tabs or bars, whichever the file uses; a quoted field may hold
    them, doubled quotes and line ends."""
    return _pairs(path, csv_rows(path), languages, columns)


def tsv_languages(path: Path) -> tuple[str, str] | None:
    return named_languages(next(tsv_rows(path), (0, []))[1])


def csv_languages(path: Path) -> tuple[str, str] | None:
    return named_languages(next(csv_rows(path), (0, []))[1])


def tsv_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    return _records(path, tsv_rows(path))


def csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    return _records(path, csv_rows(path))


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
    stream = lines(path, encoding)
    sample = list(islice(stream, PEEKED))
    announced = SEP.fullmatch(sample[0])
    delimiter = announced[1] if announced else guess_delimiter(sample)
    skipped = 1 if announced else 0
    content = chain(sample[skipped:], stream)
    reader = csv.reader((line + "\n" for line in content), strict=True, delimiter=delimiter)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            where = f"{path}, line {reader.line_num + skipped}"
            raise DataError(f"{where}: not valid CSV ({error}); check the quotes") from None
        if row:
            yield reader.line_num + skipped, row


def guess_delimiter(sample: Sequence[str]) -> str:
    """The delimiter that splits the first record of a CSV file, and most others into as many fields.

    Of two, the one that is not followed by spaces: commas within sentences are.
    """

    def score(delimiter: str) -> tuple[float, float]:
        rows, valid = _parsed(sample, delimiter)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if not valid or width < 2 or len(rows[0]) < 2:
            return 0.0, 0.0
        later = [field for row in rows for field in row[1:]]
        return count / len(rows), -sum(field.startswith(" ") for field in later) / len(later)

    return max(DELIMITERS, key=score)


def _parsed(sample: Sequence[str], delimiter: str) -> tuple[list[list[str]], bool]:
    """The records of a sample, and whether they are valid; the last may be cut short."""
    rows: list[list[str]] = []
    reader = csv.reader((line + "\n" for line in sample), strict=True, delimiter=delimiter)
    try:
        rows.extend(row for row in reader if row)
    except csv.Error:
        return rows, reader.line_num >= len(sample)
    return rows, True


def _records(path: Path, rows: Rows) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of each row by the names in the first one, with its location for messages."""
    header = [name.strip() for name in next(rows, (0, []))[1]]
    for number, row in rows:
        yield f"{path}, line {number}", dict(zip(header, row, strict=False))


def _pairs(path: Path, rows: Rows, languages: tuple[str, str], columns: Columns | None) -> Iterator[Pair]:
    """Two columns of the rows, without the header."""
    peeked = list(islice(rows, PEEKED))
    if not peeked:
        raise DataError(f"{path}: is empty; name another file")
    (first, cells), below = peeked[0], [row for _, row in peeked[1:]]
    header = [name.strip() for name in cells]
    usual = usual_columns(header, languages)
    if usual and _repeats(below, header.index(usual[0]), usual[0]):
        usual = None  # a column of language codes
    chosen = columns or usual or _without_header(f"{path}, line {first}", header, below)
    for name in chosen:
        if isinstance(name, str) and name not in header:
            raise DataError(f"{path}, line {first}: no column '{name}'; it has {listed(header)}")
    named = any(isinstance(name, str) for name in chosen)
    has_header = named or usual is not None or detect_header(header, below) == "header"
    source, target = (header.index(name) if isinstance(name, str) else name for name in chosen)
    needed = max(source, target) + 1
    for number, row in chain(peeked[1:] if has_header else peeked, rows):
        if len(row) < needed:
            raise DataError(
                f"{path}, line {number}: {counted(len(row), 'column')} where {needed} are needed; "
                f"separate them by {separators(path)}"
            )
        yield Pair(row[source], row[target])


def _without_header(where: str, first: Sequence[str], below: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The first two columns, if the first row does not name any; raises ColumnsError if they are in doubt."""
    numbers = likely_text_columns(below or [first])
    verdict, codes = detect_header(first, below), any(_repeats(below, *cell) for cell in enumerate(first))
    if len(first) > 1 and (verdict != "data" or (named_languages(first) and not codes)):
        names = (first[numbers[0]], first[numbers[1]]) if max(numbers) < len(first) else tuple(first[:2])
        no_header = f", or if this line is a pair: {columns_setting(numbers)}" if verdict == "unclear" else ""
        problem = f"{where}: which columns hold source and target is unclear; it has {listed(first)}"
        raise ColumnsError(problem, (names[0], names[1]), no_header)
    rows = [first, *below]
    if len(first) > 2 and not all(holds_text([row[one] for row in rows if len(row) > one]) for one in (0, 1)):
        problem = (
            f"{where}: the first two of {len(first)} columns are not both sentences: {listed(first[:2])}"
        )
        raise ColumnsError(problem, likely_text_columns(rows))
    return 0, 1


def _repeats(rows: Sequence[Sequence[str]], column: int, value: str) -> bool:
    """Whether most rows hold this value in a column."""
    return 2 * sum(row[column].strip() == value for row in rows if len(row) > column) > len(rows)


def separators(path: Path) -> str:
    """What separates the columns of a table, in words."""
    return "commas" if suffix(path) == ".csv" else "tabs"

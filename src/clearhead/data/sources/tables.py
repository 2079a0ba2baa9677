"""Readers of pairs kept as text: tables, JSON lines, aligned files; streams that never hold a whole file."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, chosen, customary, listed
from clearhead.data.sources.streams import ending, lines
from clearhead.errors import DataError

Rows = Iterator[tuple[int, list[str]]]


def read_tsv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns between tabs; quotes are letters like any other."""
    rows = ((number, line.split("\t")) for number, line in enumerate(lines(path), start=1) if line.strip())
    return _columns(path, rows, languages, columns)


def read_csv(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Columns between commas; a quoted field may hold commas, doubled quotes and line ends."""
    return _columns(path, _csv_rows(path), languages, columns)


def read_jsonl(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """One JSON object a line; a field inside an object is named with a dot: 'translation.en'."""
    return (Pair(*texts) for texts in read_fields(path, lambda have: chosen(have, languages, columns)))


def read_fields(path: Path, choose: Callable[[list[str]], Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """The texts of some fields of each JSON object, chosen among the names in the first."""
    get: Sequence[str] = ()
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{place}: not valid JSON ({str(error).partition(':')[0]}); mend the line or take it out"
            ) from None
        if not isinstance(record, dict):
            raise DataError(f"{place}: a JSON object is needed, not {type(record).__name__}")
        get = get or choose(_names(record))
        yield tuple(_text(place, record, name) for name in get)


def read_aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Two files in which lines of the same number belong together."""
    ours, theirs = lines(source), lines(target)
    count = 0
    for count, line in enumerate(ours, start=1):
        other = next(theirs, None)
        if other is None:
            raise _unequal(source, count + sum(1 for _ in ours), target, count - 1)
        yield Pair(line, other)
    if more := sum(1 for _ in theirs):
        raise _unequal(source, count, target, count + more)


def _unequal(source: Path, sources: int, target: Path, targets: int) -> DataError:
    return DataError(
        f"{source} has {sources} lines but {target} has {targets}; aligned files need the same number"
    )


def _csv_rows(path: Path) -> Rows:
    reader = csv.reader((line + "\n" for line in lines(path)), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num}: not valid CSV ({error}); mind the quotes"
            ) from None
        if row:
            yield reader.line_num, row


def _columns(path: Path, rows: Rows, languages: tuple[str, str], columns: Columns | None) -> Iterator[Pair]:
    """The wanted two columns; a first row that holds their names, asked for or customary, is a header."""
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: is empty")
    header = [name.strip() for name in first[1]]
    names = columns or customary(header, languages) or (0, 1)
    for name in names:
        if isinstance(name, str) and name not in header:
            raise DataError(f"{path}, line {first[0]}: no column '{name}'; it has {listed(header)}")
    if not any(isinstance(name, str) for name in names):
        rows = chain([first], rows)
    source, target = (header.index(name) if isinstance(name, str) else name for name in names)
    least = max(source, target) + 1
    for number, row in rows:
        if len(row) < least:
            kind = "commas" if ending(path) == ".csv" else "tabs"
            raise DataError(
                f"{path}, line {number}: {len(row)} columns where {least} are needed; separate them by {kind}"
            )
        yield Pair(row[source], row[target])


def _names(record: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}.{inner}" if inner else name
        for name, value in record.items()
        for inner in (value if isinstance(value, dict) else ("",))
    ]


def _text(place: str, record: Mapping[str, Any], name: str) -> str:
    """A field as text; null is empty, and so left to the cleaning."""
    value: Any = record
    for part in [name] if name in record else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"{place}: no field '{name}'; it has {listed(_names(record))}")
        value = value[part]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place}: field '{name}' is {json.dumps(value)[:40]}, not text")
    return value

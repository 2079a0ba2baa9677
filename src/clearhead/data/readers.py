"""Readers of the formats in which pairs are kept; all are streams that never hold a whole file."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.data.files import ending, lines, opened
from clearhead.data.pair import Pair
from clearhead.errors import DataError

Column = int | str
Columns = tuple[Column, Column]
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
    get = None
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{place}: not valid JSON ({str(error).partition(':')[0]})") from None
        if not isinstance(record, dict):
            raise DataError(f"{place}: a JSON object is needed, not {type(record).__name__}")
        get = get or _fields(_names(record), languages, columns)
        yield Pair(*(_text(place, record, name) for name in get))


def read_parquet(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Two columns of text, or two fields of a column of structures: 'translation.en'."""
    import pyarrow
    from pyarrow import compute, parquet

    with opened(path):
        pass
    try:
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
        have = {
            f"{field.name}.{inner.name}" if pyarrow.types.is_struct(field.type) else field.name: None
            for field in schema
            for inner in (field.type if pyarrow.types.is_struct(field.type) else [field])
        }
        names = _fields(list(have), languages, columns)
        for name in names:
            if name not in have:
                raise DataError(f"{path}: no column '{name}'; it has {_listed(have)}")
        for batch in file.iter_batches(batch_size=8192, columns=list(dict.fromkeys(names))):
            source, target = (_strings(path, batch, name, compute) for name in names)
            yield from map(Pair, source, target)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: not a Parquet file, or cut short ({reason})") from None


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


Reader = Callable[[Path, tuple[str, str], Columns | None], Iterator[Pair]]
READERS: Mapping[str, Reader] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".parquet": read_parquet,
}


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
    names = columns or _customary(header, languages) or (0, 1)
    for name in names:
        if isinstance(name, str) and name not in header:
            raise DataError(f"{path}, line 1: no column '{name}'; it has {_listed(header)}")
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


def _customary(have: Sequence[str], languages: tuple[str, str]) -> tuple[str, str] | None:
    """The names under which pairs are usually kept, if these are among those at hand."""
    nested = (f"translation.{languages[0]}", f"translation.{languages[1]}")
    return next(
        (names for names in (languages, ("source", "target"), nested) if set(names) <= set(have)), None
    )


def _fields(have: Sequence[str], languages: tuple[str, str], columns: Columns | None) -> tuple[str, str]:
    if columns is None:
        return _customary(have, languages) or ("source", "target")
    source, target = (
        have[name] if isinstance(name, int) and name < len(have) else str(name) for name in columns
    )
    return source, target


def _names(record: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}.{inner}" if inner else name
        for name, value in record.items()
        for inner in (value if isinstance(value, dict) else ("",))
    ]


def _text(place: str, record: Mapping[str, Any], name: str) -> str:
    value: Any = record
    for part in [name] if name in record else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"{place}: no field '{name}'; it has {_listed(_names(record))}")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{place}: field '{name}' is {json.dumps(value)[:40]}, not text")
    return value


def _strings(path: Path, batch: Any, name: str, compute: Any) -> list[str]:
    """A column as texts; what is missing in it is empty, and so left to the cleaning."""
    import pyarrow

    column = batch
    for part in [name] if name in batch.schema.names else name.split("."):
        column = (
            compute.struct_field(column, part) if isinstance(column, pyarrow.Array) else column.column(part)
        )
    if not (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        raise DataError(f"{path}: column '{name}' holds {column.type}, not text")
    return column.fill_null("").to_pylist()


def _listed(names: Any) -> str:
    return ", ".join(list(names)[:12]) or "none"

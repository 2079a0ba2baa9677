"""Columns of Parquet files, read in batches; pyarrow is imported on use because it is slow to load."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.data.progress import count_share
from clearhead.data.sources.columns import listed
from clearhead.data.sources.streams import open_file
from clearhead.errors import DataError

BATCH = 8192


def read_columns(
    path: Path, choose: Callable[[list[str]], Sequence[str]], labels: bool = False
) -> Iterator[tuple[Any, ...]]:
    """The texts of some columns, row by row; `choose` picks them from all names.

    A field of a column of structs is named with a dot: 'translation.en'. With `labels`, integers count as
    text, and the first column may hold lists, which become tuples.
    """
    with _opened(path) as file:
        available = list(_names(file.schema_arrow))
        names = choose(available)
        for name in names:
            if name not in available:
                raise DataError(f"{path}: no column '{name}'; it has {listed(available)}")
        for batch in file.iter_batches(BATCH, columns=list(dict.fromkeys(names))):
            columns = [_column(batch, name) for name in names]
            read = [_lists if labels and _is_list(columns[0]) else _texts, *[_texts] * len(names[1:])]
            each = zip(read, names, columns, strict=True)
            yield from zip(*(of(path, name, column, labels) for of, name, column in each), strict=True)
            count_share(path, batch.num_rows, file.metadata.num_rows)


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All columns by name, row by row, with the row's location for messages."""
    number = 0
    with _opened(path) as file:
        for batch in file.iter_batches(BATCH):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
            count_share(path, batch.num_rows, file.metadata.num_rows)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A Parquet file; raises DataError if it cannot be read."""
    import pyarrow
    from pyarrow import parquet

    with open_file(path):
        pass  # raises a DataError if the file cannot be opened
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: cut short or not a Parquet file ({reason})") from None


def _names(schema: Any) -> Iterator[str]:
    from pyarrow import types

    for field in schema:
        if types.is_struct(field.type):
            yield from (f"{field.name}.{inner.name}" for inner in field.type)
        else:
            yield field.name


def _column(batch: Any, name: str) -> Any:
    if name in batch.schema.names:
        return batch.column(name)
    outer, _, inner = name.partition(".")
    struct = batch.column(outer)
    return struct.flatten()[struct.type.get_field_index(inner)]


def _is_list(column: Any) -> bool:
    from pyarrow import types

    return types.is_list(column.type) or types.is_large_list(column.type)


def _lists(path: Path, name: str, column: Any, numbers: bool) -> list[tuple[str, ...]]:
    """A column of lists as tuples of texts."""
    texts = iter(_texts(path, name, column.flatten(), numbers))
    return [tuple(islice(texts, length)) for length in column.value_lengths().fill_null(0).to_pylist()]


def _texts(path: Path, name: str, column: Any, numbers: bool) -> list[str]:
    """A column as texts; null is empty, and so left to the cleaning."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if numbers and (types.is_integer(column.type) or types.is_boolean(column.type)):
        column = column.cast("string")
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise DataError(f"{path}: column '{name}' holds {column.type}, not text")
    return column.fill_null("").to_pylist()

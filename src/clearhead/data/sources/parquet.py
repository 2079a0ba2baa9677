"""Parquet files as pairs or texts, read batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet, types

from clearhead.data.pair import Pair
from clearhead.data.progress import count_share
from clearhead.data.sources.columns import Columns, chosen, listed
from clearhead.data.sources.streams import opened
from clearhead.errors import DataError

BATCH = 8192


def read_parquet(path: Path, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Two columns of text, or two fields of a column of structures: 'translation.en'."""
    return (Pair(*texts) for texts in read_columns(path, lambda have: chosen(have, languages, columns)))


def read_columns(path: Path, choose: Callable[[list[str]], Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """The texts of some columns, chosen among their names, row by row."""
    with opened(path):
        pass  # says what is wrong if the file cannot even be opened
    try:
        with parquet.ParquetFile(path) as file:
            have = list(_names(file.schema_arrow))
            names = choose(have)
            for name in names:
                if name not in have:
                    raise DataError(f"{path}: no column '{name}'; it has {listed(have)}")
            for batch in file.iter_batches(BATCH, columns=list(dict.fromkeys(names))):
                yield from zip(*(_texts(path, batch, name) for name in names), strict=True)
                count_share(path, batch.num_rows, file.metadata.num_rows)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: not a Parquet file, or cut short ({reason})") from None


def _names(schema: pyarrow.Schema) -> Iterator[str]:
    for field in schema:
        if types.is_struct(field.type):
            yield from (f"{field.name}.{inner.name}" for inner in field.type)
        else:
            yield field.name


def _texts(path: Path, batch: pyarrow.RecordBatch, name: str) -> list[str]:
    """A column as texts; what is missing in it is empty, and so left to the cleaning."""
    if name in batch.schema.names:
        column = batch.column(name)
    else:
        outer, _, inner = name.partition(".")
        structure = batch.column(outer)
        column = structure.flatten()[structure.type.get_field_index(inner)]
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise DataError(f"{path}: column '{name}' holds {column.type}, not text")
    return column.fill_null("").to_pylist()

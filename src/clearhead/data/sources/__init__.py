"""One reader per file type, chosen by the file's suffix; to add a type, add its functions to `READERS`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns, select_columns, select_text_fields
from clearhead.data.sources.conversations import Chat, form_of
from clearhead.data.sources.jsonl import jsonl_languages, read_fields, read_objects
from clearhead.data.sources.labelled import (
    Example,
    csv_examples,
    jsonl_examples,
    parquet_examples,
    tsv_examples,
)
from clearhead.data.sources.parquet import read_columns, read_rows
from clearhead.data.sources.plain_text import TextChunk, read_plain_text, text_documents
from clearhead.data.sources.po import po_languages, read_po
from clearhead.data.sources.srt import read_srt_pairs, read_srt_text
from clearhead.data.sources.tables import (
    csv_languages,
    csv_records,
    read_csv,
    read_tsv,
    tsv_languages,
    tsv_records,
)
from clearhead.data.sources.tmx import read_tmx, tmx_languages
from clearhead.data.sources.xliff import read_xliff, xliff_languages


@dataclass(frozen=True)
class Reader:
    """The functions that read one file type; None for content it does not hold."""

    pairs: "PairReader | None" = None
    """The pairs of two languages, from two columns or the default ones."""
    documents: Callable[[Path, str | None], Iterator[TextChunk]] | None = None
    """The documents, from a field or the default one."""
    languages: Callable[[Path], tuple[str, str] | None] | None = None
    """The two languages that the file itself names."""
    records: "NamedRecords | None" = None
    """All fields of each record by name, with its location for messages."""
    aligned: Callable[[Path, Path], Iterator[Pair]] | None = None
    """The pairs of two files, each in one language."""
    examples: "Examples | None" = None
    """The labelled texts, from two columns or the default ones, in an encoding."""


PairReader = Callable[[Path, tuple[str, str], Columns | None], Iterator[Pair]]
Languages = Callable[[Path], tuple[str, str] | None]
Records = Callable[[Path, Callable[[list[str]], Sequence[str]]], Iterator[tuple[str, ...]]]
NamedRecords = Callable[[Path], Iterator[tuple[str, dict[str, Any]]]]
Examples = Callable[[Path, Columns | None, str], Iterator[Example]]


def of_records(
    read: Records, read_all: NamedRecords, examples: Examples, find_languages: Languages | None = None
) -> Reader:
    """The reader of a file type whose records have named fields."""

    def pairs(path: Path, languages: tuple[str, str], columns: Columns | None) -> Iterator[Pair]:
        form = form_of(next(read_all(path), ("", {}))[1]) if columns is None else None
        if isinstance(form, Chat):
            return chain.from_iterable(form.turns(*record) for record in read_all(path))
        records = read(path, lambda names: select_columns(str(path), names, languages, columns))
        return (Pair(*texts) for texts in records)

    def texts(path: Path, field: str | None) -> Iterator[TextChunk]:
        records = read(path, lambda names: select_text_fields(path, names, field))
        return text_documents(("\n".join(record),) for record in records)

    return Reader(pairs, texts, find_languages, read_all, examples=examples)


TSV = Reader(read_tsv, languages=tsv_languages, records=tsv_records, examples=tsv_examples)
TEXT = Reader(documents=read_plain_text)
JSONL = of_records(read_fields, read_objects, jsonl_examples, jsonl_languages)
XLIFF = Reader(read_xliff, languages=xliff_languages)
READERS = {
    ".tsv": TSV,
    ".txt": Reader(read_tsv, read_plain_text, tsv_languages),
    ".text": TEXT,
    ".md": TEXT,
    ".csv": Reader(read_csv, languages=csv_languages, records=csv_records, examples=csv_examples),
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSONL,
    ".parquet": of_records(read_columns, read_rows, parquet_examples),
    ".tmx": Reader(read_tmx, languages=tmx_languages),
    ".xlf": XLIFF,
    ".xliff": XLIFF,
    ".po": Reader(read_po, languages=po_languages),
    ".srt": Reader(documents=read_srt_text, aligned=read_srt_pairs),
}

"""One reader per file type, chosen by the file's suffix.

To add a file type, write a module with its functions and add a row to `READERS`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns
from clearhead.data.sources.jsonl import jsonl_languages, read_jsonl, read_jsonl_texts
from clearhead.data.sources.parquet import read_parquet, read_parquet_texts
from clearhead.data.sources.plain_text import TextChunk, read_plain_text
from clearhead.data.sources.tables import csv_languages, read_csv, read_tsv, tsv_languages
from clearhead.data.sources.tmx import read_tmx, tmx_languages


@dataclass(frozen=True)
class Reader:
    """The functions that read one file type; None for content it does not hold."""

    pairs: Callable[[Path, tuple[str, str], Columns | None], Iterator[Pair]] | None = None
    """The pairs of two languages, from two columns or the default ones."""
    documents: Callable[[Path, str | None], Iterator[TextChunk]] | None = None
    """The documents, from a field or the default one."""
    languages: Callable[[Path], tuple[str, str] | None] | None = None
    """The two languages that the file itself names."""


TSV = Reader(read_tsv, languages=tsv_languages)
TEXT = Reader(documents=read_plain_text)
JSONL = Reader(read_jsonl, read_jsonl_texts, jsonl_languages)
READERS = {
    ".tsv": TSV,
    ".txt": Reader(read_tsv, read_plain_text, tsv_languages),
    ".text": TEXT,
    ".md": TEXT,
    ".csv": Reader(read_csv, languages=csv_languages),
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".parquet": Reader(read_parquet, read_parquet_texts),
    ".tmx": Reader(read_tmx, languages=tmx_languages),
}

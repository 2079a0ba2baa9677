"""Pairs from files or shipped datasets."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clearhead.data.datasets import SHIPPED, is_shipped, shipped_file
from clearhead.data.pair import Pair
from clearhead.data.sources import READERS, PairReader
from clearhead.data.sources.columns import Columns
from clearhead.data.sources.streams import check_rereadable, compression, content_hash, suffix
from clearhead.data.sources.tables import read_aligned, read_tsv
from clearhead.errors import DataError

__all__ = ["Columns", "DataPath", "Pair", "corpus_hash", "languages_in", "read_pairs", "reader_name"]

DataPath = str | Path | tuple[str | Path, str | Path]
"""A file, two aligned files, or the name of a shipped dataset."""


def read_pairs(path: DataPath, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """The pairs of (source, target) languages.

    Columns are indices from 0 or names in the header. The default is the columns named by the languages, or
    'source' and 'target', or else the first two.
    """
    if isinstance(path, tuple):
        source, target = Path(path[0]), Path(path[1])
        reader = READERS.get(suffix(source)) if suffix(source) == suffix(target) else None
        return (reader.aligned if reader and reader.aligned else read_aligned)(source, target)
    if is_shipped(path, SHIPPED):
        dataset = SHIPPED[str(path)]
        if sorted(dataset.languages) != sorted(languages):
            raise DataError(f"{path}: holds {' and '.join(dataset.languages)}, not {' and '.join(languages)}")
        source, target = (dataset.languages.index(language) for language in languages)
        return read_tsv(shipped_file(dataset.name), languages, (source, target))
    return reader_of_pairs(Path(path))(Path(path), languages, columns)


def reader_of_pairs(file: Path) -> PairReader:
    """The function that reads the pairs of a file; raises DataError if there is none."""
    if file.is_dir():
        raise DataError(f"{file}: is a folder; name a file in it")
    reader = READERS.get(suffix(file))
    if reader and reader.aligned and not reader.pairs:
        raise DataError(
            f"{file}: holds one language; name two files (train, evaluate: --pairs SOURCE,TARGET)"
        )
    if reader is None or reader.pairs is None:
        known = ", ".join(name for name, reader in READERS.items() if reader.pairs)
        raise DataError(
            f"{file}: unknown suffix '{suffix(file)}'; use one of {known} (also .gz, .xz, .zst), "
            "or give two aligned files"
        )
    return reader.pairs


def languages_in(path: Path) -> tuple[str, str] | None:
    """The two languages that a file itself names, for example in its header; None if unclear."""
    reader = READERS.get(suffix(path))
    return reader.languages(path) if reader and reader.languages else None


def check_files(paths: Iterable[DataPath]) -> None:
    """Raises DataError for missing and unusable files, before any long work."""
    for path in paths:
        for part in path if isinstance(path, tuple) else (path,):
            check_rereadable(Path(part))
            if not Path(part).exists() and not (part is path and str(part) in SHIPPED):
                names = ", ".join(SHIPPED)
                raise DataError(
                    f"{part}: no such file; shipped datasets are {names}; "
                    "'clearhead data get' downloads others"
                )


def pair_files(path: DataPath) -> list[Path]:
    """The files behind a path."""
    if isinstance(path, tuple):
        return [Path(part) for part in path]
    return [shipped_file(str(path)) if is_shipped(path, SHIPPED) else Path(path)]


def corpus_hash(path: DataPath) -> str:
    """A hash of the files' bytes; with `reader_name`, a cache key for their pairs."""
    return "+".join(map(content_hash, pair_files(path)))


def reader_name(path: DataPath) -> str:
    """How a path is read; the same bytes under another suffix are other pairs."""
    if isinstance(path, tuple):
        kinds = {suffix(Path(part)) for part in path}
        kind = kinds.pop() if len(kinds) == 1 and kinds <= READERS.keys() else ""
        return f"aligned{kind}" + "+".join(compression(Path(part)) for part in path)
    return "shipped" if is_shipped(path, SHIPPED) else suffix(Path(path)) + compression(Path(path))

"""Pairs and texts from files or shipped data sets, the reader chosen by the file's ending."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clearhead.data.datasets import SHIPPED, shipped_file
from clearhead.data.pair import Pair
from clearhead.data.sources.columns import Columns
from clearhead.data.sources.streams import check_lasts, content_hash, ending, lines, packing
from clearhead.data.sources.tables import read_aligned, read_csv, read_jsonl, read_tsv
from clearhead.data.sources.tmx import read_tmx
from clearhead.errors import DataError

__all__ = ["Columns", "Pair", "Place", "corpus_hash", "read_pairs", "read_texts", "reader_name"]

Place = str | Path | tuple[str | Path, str | Path]


def read_pairs(place: Place, languages: tuple[str, str], columns: Columns | None = None) -> Iterator[Pair]:
    """Pairs of (source, target) languages from a file, two aligned files, or a shipped data set by name.

    Columns are numbers from 0 or names in the header. Left out, they are those named by the languages or
    'source' and 'target', or else the first two.
    """
    if isinstance(place, tuple):
        return read_aligned(Path(place[0]), Path(place[1]))
    if _is_shipped(place):
        dataset = SHIPPED[str(place)]
        if sorted(dataset.languages) != sorted(languages):
            raise DataError(
                f"{place}: holds {' and '.join(dataset.languages)}, not {' and '.join(languages)}"
            )
        source, target = (dataset.languages.index(language) for language in languages)
        return read_tsv(shipped_file(dataset.name), languages, (source, target))
    path = Path(place)
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    match ending(path):
        case ".tsv" | ".txt":
            return read_tsv(path, languages, columns)
        case ".csv":
            return read_csv(path, languages, columns)
        case ".jsonl" | ".ndjson":
            return read_jsonl(path, languages, columns)
        case ".tmx":
            return read_tmx(path, languages)
        case ".parquet":
            # Imported only when needed: pyarrow is slow to load.
            from clearhead.data.sources.parquet import read_parquet

            return read_parquet(path, languages, columns)
        case unknown:
            raise DataError(
                f"{path}: unknown ending '{unknown}'; use .tsv, .txt, .csv, .jsonl, .parquet or .tmx "
                "(also .gz, .xz, .zst), or give two aligned files"
            )


def check_files(places: Iterable[Place]) -> None:
    """Refuses at once what would be missed only after long work."""
    for place in places:
        for part in place if isinstance(place, tuple) else (place,):
            check_lasts(Path(part))
            if not Path(part).exists() and not (part is place and str(part) in SHIPPED):
                names = ", ".join(SHIPPED)
                raise DataError(
                    f"{part}: no such file; shipped data sets are {names}; 'clearhead data get' brings others"
                )


def pair_files(place: Place) -> list[Path]:
    """The files that a place stands for."""
    if isinstance(place, tuple):
        return [Path(part) for part in place]
    return [shipped_file(str(place)) if _is_shipped(place) else Path(place)]


def read_texts(path: str | Path) -> Iterator[str]:
    """One text a line."""
    return lines(Path(path))


def corpus_hash(place: Place) -> str:
    """A hash of the files' content; with the reader's name, what is made of them can be kept under it."""
    return "+".join(map(content_hash, pair_files(place)))


def reader_name(place: Place) -> str:
    """How a place is read: the same bytes under another ending are other pairs, or none."""
    if isinstance(place, tuple):
        return "aligned" + "+".join(packing(Path(part)) for part in place)
    return "shipped" if _is_shipped(place) else ending(Path(place)) + packing(Path(place))


def _is_shipped(place: str | Path) -> bool:
    return str(place) in SHIPPED and not Path(place).exists()

"""The Hansards with word alignments made by people, for measuring only."""

import tarfile
from pathlib import Path
from typing import Literal

from clearhead.errors import DataError
from clearhead.evaluation.alignment import AlignedPair, Link
from clearhead.evaluation.metric import check_lines

HANSARDS = "word-alignment/word-alignment-gold.tar.xz"
"""The archive in the folder of datasets."""


def read_hansards(archive: Path, part: Literal["dev", "test"] = "test") -> list[AlignedPair]:
    """The English-French pairs of the WPT 2003 shared task (Mihalcea and Pedersen 2003)."""
    english = [tuple(line.split()) for line in _lines(archive, f"{part}.e")]
    french = [tuple(line.split()) for line in _lines(archive, f"{part}.f")]
    check_lines(english=english, french=french)
    sure: list[set[Link]] = [set() for _ in english]
    possible: list[set[Link]] = [set() for _ in english]
    for line in _lines(archive, f"{part}.wa.nonullalign"):
        number, source, target, kind = line.split()
        link = int(source) - 1, int(target) - 1
        possible[int(number) - 1].add(link)
        if kind == "S":
            sure[int(number) - 1].add(link)
    rows = zip(english, french, sure, possible, strict=True)
    return [AlignedPair(source, target, frozenset(s), frozenset(p)) for source, target, s, p in rows]


def _lines(archive: Path, name: str) -> list[str]:
    try:
        with tarfile.open(archive) as packed:
            file = packed.extractfile(f"hansards-wpt03/{name}")
            assert file is not None
            return file.read().decode("utf-8").splitlines()
    except (OSError, tarfile.TarError, KeyError) as error:
        problem = f"{name} of the Hansards cannot be read ({error})"
        raise DataError(f"{archive}: {problem}; copy it again") from None

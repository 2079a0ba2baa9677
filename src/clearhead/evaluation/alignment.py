"""How near word alignments are to those that people made."""

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clearhead.errors import DataError
from clearhead.evaluation.score import check_lines

Link = tuple[int, int]
"""A word of the source and one of the target, both counted from 0."""
HANSARDS = "word-alignment/word-alignment-gold.tar.xz"
"""Where a folder of data sets has the pairs of the Hansards with gold alignments."""


@dataclass(frozen=True)
class AlignedPair:
    """A sentence and its translation, cut into words, with what people linked."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]
    """All links that are no mistake, the sure ones included."""


@dataclass(frozen=True)
class AlignmentScore:
    """The alignment error rate, and of what it is made (Och and Ney 2003)."""

    error_rate: float
    precision: float
    """The share of the links that are possible."""
    recall: float
    """The share of the sure links that were found."""
    links: int

    def __str__(self) -> str:
        return f"AER {self.error_rate:.3f} (precision {self.precision:.3f}, recall {self.recall:.3f})"


def alignment_score(found: Sequence[set[Link]], gold: Sequence[AlignedPair]) -> AlignmentScore:
    """Of the links that were found in each pair."""
    check_lines(found=[""] * len(found), gold=[""] * len(gold))
    links = sum(map(len, found))
    sure = sum(len(pair.sure) for pair in gold)
    found_sure = sum(len(mine & pair.sure) for mine, pair in zip(found, gold, strict=True))
    found_possible = sum(len(mine & pair.possible) for mine, pair in zip(found, gold, strict=True))
    return AlignmentScore(
        error_rate=1 - (found_sure + found_possible) / max(links + sure, 1),
        precision=found_possible / max(links, 1),
        recall=found_sure / max(sure, 1),
        links=links,
    )


def read_hansards(archive: Path, part: Literal["dev", "test"] = "test") -> list[AlignedPair]:
    """English and French sentences of the Canadian parliament (Mihalcea and Pedersen 2003)."""
    english = [tuple(line.split()) for line in _lines(archive, f"{part}.e")]
    french = [tuple(line.split()) for line in _lines(archive, f"{part}.f")]
    check_lines(english=list(map(" ".join, english)), french=list(map(" ".join, french)))
    sure: list[set[Link]] = [set() for _ in english]
    possible: list[set[Link]] = [set() for _ in english]
    for line in _lines(archive, f"{part}.wa.nonullalign"):
        number, source, target, kind = line.split()
        link = int(source) - 1, int(target) - 1
        possible[int(number) - 1].add(link)
        if kind == "S":
            sure[int(number) - 1].add(link)
    rows = zip(english, french, sure, possible, strict=True)
    return [AlignedPair(one, other, frozenset(safe), frozenset(all_)) for one, other, safe, all_ in rows]


def _lines(archive: Path, name: str) -> list[str]:
    try:
        with tarfile.open(archive) as packed:
            file = packed.extractfile(f"hansards-wpt03/{name}")
            assert file is not None
            return file.read().decode("utf-8").splitlines()
    except (OSError, tarfile.TarError, KeyError) as error:
        raise DataError(
            f"{archive}: {name} of the Hansards cannot be read ({error}); copy it again"
        ) from None

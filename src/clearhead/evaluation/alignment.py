"""Word alignments against those made by people."""

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clearhead.errors import DataError
from clearhead.evaluation.metric import check_lines

Link = tuple[int, int]
"""The numbers of a source word and a target word, from 0."""
HANSARDS = "word-alignment/word-alignment-gold.tar.xz"
"""The Hansards with gold alignments, in the folder of data sets."""


@dataclass(frozen=True)
class AlignedPair:
    """A sentence and its translation as words, with gold links."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]
    """All acceptable links, the sure ones included."""


@dataclass(frozen=True)
class AlignmentScore:
    """The alignment error rate with its precision and recall (Och and Ney 2003)."""

    error_rate: float
    precision: float
    """The share of the links found that are possible."""
    recall: float
    """The share of the sure links that were found."""
    links: int

    def __str__(self) -> str:
        return f"AER {self.error_rate:.3f} (precision {self.precision:.3f}, recall {self.recall:.3f})"


def alignment_score(found: Sequence[set[Link]], gold: Sequence[AlignedPair]) -> AlignmentScore:
    """The score of the links found in each pair."""
    check_lines(found=found, gold=gold)
    links, sure = sum(map(len, found)), sum(len(pair.sure) for pair in gold)
    both = list(zip(found, gold, strict=True))
    found_sure = sum(len(one & pair.sure) for one, pair in both)
    found_possible = sum(len(one & pair.possible) for one, pair in both)
    return AlignmentScore(
        error_rate=1 - (found_sure + found_possible) / max(links + sure, 1),
        precision=found_possible / max(links, 1),
        recall=found_sure / max(sure, 1),
        links=links,
    )


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

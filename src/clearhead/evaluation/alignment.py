"""Word alignments against those made by people."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.evaluation.metric import check_lines

Link = tuple[int, int]
"""The numbers of a source word and a target word, from 0."""


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

"""Tests of word vectors: human similarity ratings, and analogies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.streams import lines
from clearhead.errors import DataError

MOST_FREQUENT = 30_000
"""Words that may occur in an analogy and answer it, as in the authors' word2vec."""
CHUNK = 512
"""Analogies that are answered at once."""

Find = Callable[[str], int | None]
"""The id of a word, or None."""
UnitVectors = Float[Tensor, "words width"]


class SimilarPair(NamedTuple):
    """Two words and how similar people find them."""

    first: str
    second: str
    score: float


class Analogy(NamedTuple):
    """`first` is to `second` as `third` is to `answer`."""

    first: str
    second: str
    third: str
    answer: str


@dataclass(frozen=True)
class WordTest:
    """A file of tests: pairs with scores, or analogies by section."""

    name: str
    pairs: tuple[SimilarPair, ...] = ()
    sections: tuple[tuple[str, tuple[Analogy, ...]], ...] = ()

    @property
    def size(self) -> int:
        return len(self.pairs) + sum(len(questions) for _, questions in self.sections)


@dataclass(frozen=True)
class SimilarityScore:
    """Spearman's rank correlation with human ratings."""

    name: str
    correlation: float | None
    """None where it is undefined: fewer than two pairs, or all alike."""
    tested: int
    skipped: int
    """Pairs with a word that has no vector."""


@dataclass(frozen=True)
class AnalogyScore:
    """The analogies of a section that were answered right."""

    name: str
    right: int
    tested: int
    skipped: int
    """Analogies with a word that has no vector or is not frequent enough."""

    @property
    def accuracy(self) -> float:
        return self.right / self.tested if self.tested else 0.0


def read_word_test(path: Path) -> WordTest:
    """The tests in a file: "word word score" or four words a line; ": name" begins a section of analogies."""
    pairs: list[SimilarPair] = []
    sections: list[tuple[str, list[Analogy]]] = []
    for number, line in enumerate(lines(path), start=1):
        match line.split():
            case [] | ["#", *_]:
                continue
            case [":", *name]:
                sections.append((" ".join(name), []))
            case [first, second, third, answer] if not pairs:
                sections = sections or [("all", [])]
                sections[-1][1].append(Analogy(first, second, third, answer))
            case [first, second, score] if not sections and _is_number(score):
                pairs.append(SimilarPair(first, second, float(score)))
            case _:
                raise DataError(
                    f"{path}, line {number}: {line[:60]!r} is neither 'word word score' nor an analogy of "
                    "four words; use one kind in a file"
                )
    test = WordTest(path.name, tuple(pairs), tuple((name, tuple(tested)) for name, tested in sections))
    if not test.size:
        raise DataError(f"{path}: holds no tests; a line is 'word word score' or an analogy of four words")
    return test


def similarity_score(test: WordTest, vectors: UnitVectors, find: Find) -> SimilarityScore:
    """The correlation of cosines with the scores of a test."""
    known = [
        (one, other, pair.score)
        for pair in test.pairs
        if (one := find(pair.first)) is not None and (other := find(pair.second)) is not None
    ]
    first, second = (torch.tensor([row[side] for row in known], dtype=torch.long) for side in (0, 1))
    cosines = (vectors[first] * vectors[second]).sum(-1)
    correlation = spearman(cosines, torch.tensor([score for *_, score in known]))
    return SimilarityScore(test.name, correlation, len(known), len(test.pairs) - len(known))


def analogy_scores(
    test: WordTest, vectors: UnitVectors, find: Find, progress: ProgressCallback = ignore_progress
) -> list[AnalogyScore]:
    """The accuracy in each section: the nearest word to second - first + third, other than these three."""
    candidates, done, found = vectors[:MOST_FREQUENT], 0, []
    for name, questions in test.sections:
        ids = [[find(word) for word in question] for question in questions]
        known = [row for row in ids if all(one is not None and one < len(candidates) for one in row)]
        tested = torch.tensor(known, dtype=torch.long, device=vectors.device).view(-1, 4)
        right = sum(int(_answered_right(candidates, chunk).sum()) for chunk in tested.split(CHUNK))
        found.append(AnalogyScore(name, right, len(known), len(questions) - len(known)))
        done += len(questions)
        progress(done, test.size)
    return found


def spearman(first: Float[Tensor, " n"], second: Float[Tensor, " n"]) -> float | None:
    """Spearman's rank correlation; equal values share the mean of their ranks. None if it is undefined."""
    if min(len(first.unique()), len(second.unique())) < 2:
        return None
    ranks = torch.stack([_ranks(first.double().cpu()), _ranks(second.double().cpu())])
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    _, group, counts = values.unique(return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    return (ends - (counts - 1) / 2)[group]


def _answered_right(candidates: UnitVectors, questions: Tensor) -> Tensor:
    first, second, third, answer = questions.T
    scores = (candidates[second] - candidates[first] + candidates[third]) @ candidates.T
    scores.scatter_(1, questions[:, :3], -torch.inf)
    return scores.argmax(1) == answer


def _is_number(text: str) -> bool:
    try:
        return bool(torch.isfinite(torch.tensor(float(text))))
    except ValueError:
        return False


def total(scores: Sequence[AnalogyScore], name: str) -> AnalogyScore:
    """All sections together."""
    counts = [(one.right, one.tested, one.skipped) for one in scores]
    return AnalogyScore(name, *(sum(column) for column in zip(*counts, strict=True)))

"""How good a translator is on pairs it has not seen, alone or against another."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clearhead.checkpoint import SETTINGS
from clearhead.config import read_toml
from clearhead.data.sources.corpus import DataPath, Pair, read_pairs
from clearhead.errors import DataError
from clearhead.evaluation import Comparison, LengthBucket, Score, by_length, paired_bootstrap, scores
from clearhead.tasks.translation.directions import Direction, file_name, saved_directions
from clearhead.tasks.translation.model import TranslationModel
from clearhead.text.normalize import normalize

T = TypeVar("T")


@dataclass(frozen=True)
class Unseen:
    """Pairs to measure on, without those that are blank on a side, and the place of each among all."""

    pairs: list[Pair]
    places: list[int]
    read: int

    @property
    def blank(self) -> int:
        return self.read - len(self.pairs)

    def kept(self, each: Sequence[T]) -> list[T]:
        """Of something for every pair that was read, that for the pairs that are left."""
        return [each[place] for place in self.places]

    def spread(self, lines: Sequence[str]) -> list[str]:
        """A line for every pair that was read: those of the pairs that are left, else an empty one."""
        found = dict(zip(self.places, lines, strict=True))
        return [found.get(place, "") for place in range(self.read)]


@dataclass(frozen=True)
class Measured:
    """Scores over a test set, by source length, and beside another system where one was given."""

    sentences: int
    scores: list[Score]
    by_length: list[LengthBucket]
    comparisons: list[Comparison]


def unseen_pairs(place: DataPath | None, folder: Path, direction: Direction) -> Unseen:
    """The pairs to measure on: those named, or those that training kept from the model in the folder."""
    if place is None:
        place = folder / file_name("test", direction, saved_directions(read_toml(folder / SETTINGS)))
        if not place.exists() or not place.stat().st_size:
            raise DataError(f"{folder}: no test pairs are kept beside this model; name a file with --pairs")
    pairs = [Pair(normalize(source), normalize(target)) for source, target in read_pairs(place, direction)]
    places = [place for place, pair in enumerate(pairs) if pair.source and pair.target]
    return Unseen([pairs[place] for place in places], places, len(pairs))


def within_reach(translator: TranslationModel, sources: Sequence[str]) -> list[str]:
    """The sources, those longer than the model takes being empty, so that they get an empty translation."""
    return [source if fits else "" for source, fits in zip(sources, translator.fits(sources), strict=True)]


def measure(
    pairs: Sequence[Pair], translations: Sequence[str], language: str, against: Sequence[str] | None = None
) -> Measured:
    """Scores of translations of the pairs' sources into a language."""
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    return Measured(
        len(pairs),
        scores(translations, references, language),
        by_length(sources, translations, references, language),
        paired_bootstrap(translations, against, references, language) if against is not None else [],
    )

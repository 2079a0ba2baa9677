"""How good a translator is on pairs it has not seen, alone or against another."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.data.corpus import Pair, Place, read_pairs
from clearhead.errors import DataError
from clearhead.evaluation import Comparison, LengthBucket, Score, by_length, paired_bootstrap, scores
from clearhead.text.normalize import normalize


@dataclass(frozen=True)
class Measured:
    """Scores over a test set, by source length, and beside another system where one was given."""

    sentences: int
    scores: list[Score]
    by_length: list[LengthBucket]
    comparisons: list[Comparison]


def unseen_pairs(place: Place | None, folder: Path, languages: tuple[str, str]) -> list[Pair]:
    """The pairs to measure on: those named, or those that training kept from the model in the folder."""
    if place is None:
        place = folder / "test.tsv"
        if not place.exists() or not place.stat().st_size:
            raise DataError(f"{folder}: no test pairs were kept for this model; name a file with --pairs")
    pairs = [Pair(normalize(source), normalize(target)) for source, target in read_pairs(place, languages)]
    return [pair for pair in pairs if pair.source and pair.target]


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

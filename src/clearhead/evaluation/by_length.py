"""Translation quality by the length of the source."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import SettingsError
from clearhead.evaluation.bleu import bleu, chrf
from clearhead.evaluation.score import check_lines


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose source has `min_length` to `max_length` words; None means no upper bound."""

    min_length: int
    max_length: int | None
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float
    """Words of the translations per word of the references."""

    @property
    def label(self) -> str:
        return f"{self.min_length}+" if self.max_length is None else f"{self.min_length}-{self.max_length}"


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    bounds: Sequence[int] = (10, 20, 30, 40, 50),
) -> list[LengthBucket]:
    """The buckets that have sentences; `bounds` are the max_length of all but the last."""
    check_lines(sources=sources, translations=hypotheses, references=references)
    if list(bounds) != sorted(set(bounds)) or (bounds and bounds[0] < 0):
        raise SettingsError(f"bounds: {list(bounds)} should be increasing and not negative")
    triples = list(zip(sources, hypotheses, references, strict=True))
    buckets = []
    for min_length, max_length in zip((0, *(bound + 1 for bound in bounds)), (*bounds, None), strict=True):
        inside = [
            (hypothesis, reference)
            for source, hypothesis, reference in triples
            if min_length <= _words(source) and (max_length is None or _words(source) <= max_length)
        ]
        if inside:
            buckets.append(_bucket(min_length, max_length, inside, language))
    return buckets


def _bucket(
    min_length: int, max_length: int | None, pairs: list[tuple[str, str]], language: str
) -> LengthBucket:
    hypotheses, references = (list(side) for side in zip(*pairs, strict=True))
    return LengthBucket(
        min_length=min_length,
        max_length=max_length,
        sentences=len(pairs),
        bleu=bleu(hypotheses, references, language).value,
        chrf=chrf(hypotheses, references, language).value,
        length_ratio=sum(map(_words, hypotheses)) / max(1, sum(map(_words, references))),
    )


def _words(text: str) -> int:
    return len(text.split())

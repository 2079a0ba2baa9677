"""Translation quality by the length of the source."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import SettingsError
from clearhead.evaluation.bleu import bleu, chrf
from clearhead.evaluation.metric import check_lines


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
    grouped: dict[int, list[tuple[str, str]]] = {}
    for source, *pair in zip(sources, hypotheses, references, strict=True):
        grouped.setdefault(bisect_left(bounds, _words(source)), []).append((pair[0], pair[1]))
    buckets = []
    for number, pairs in sorted(grouped.items()):
        ours, theirs = (list(side) for side in zip(*pairs, strict=True))
        bucket = LengthBucket(
            min_length=bounds[number - 1] + 1 if number else 0,
            max_length=bounds[number] if number < len(bounds) else None,
            sentences=len(pairs),
            bleu=bleu(ours, theirs, language).value,
            chrf=chrf(ours, theirs, language).value,
            length_ratio=sum(map(_words, ours)) / max(1, sum(map(_words, theirs))),
        )
        buckets.append(bucket)
    return buckets


def _words(text: str) -> int:
    return len(text.split())

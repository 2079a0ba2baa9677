"""Drops unusable pairs from a corpus and counts them by reason."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clearhead.config import Settings
from clearhead.data.pair import Pair
from clearhead.data.typography import is_mismatched
from clearhead.text.normalize import normalize
from clearhead.wording import counted

CHUNK = 4096
# Added to both lengths before they are compared, so that a few letters do not matter in short phrases.
SLACK = 10


class CleaningConfig(Settings):
    """Limits per sentence; `ratio` is the longer side over the shorter, in characters."""

    max_words: Annotated[int, Field(gt=0)] = 200
    max_characters: Annotated[int, Field(gt=0)] = 2000
    ratio: Annotated[float, Field(ge=1)] = 4.0
    drop_duplicates: bool = True
    drop_identical: bool = True
    drop_mismatched: bool = False
    """Drop training pairs of which only one side is a question, lacks a final mark, or has brackets."""
    typeset_targets: bool = False
    """Write training targets with straight apostrophes, and the quotes and spacing of their language."""
    variants: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of training pairs to see also in lower case, without a final mark, or with curly quotes."""


@dataclass
class Tally:
    """The number of pairs kept, and of pairs dropped for each reason."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        return self.kept + self.dropped.total()

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.most_common())
        dropped = f"; dropped: {reasons}" if reasons else ""
        return f"{counted(self.read, 'pair')} read, {self.kept:,} kept{dropped}"


def normalized(pairs: Iterable[Pair], tally: Tally | None = None) -> Iterator[Pair]:
    """All normalized pairs with text on both sides, for published test sets, which must stay complete."""
    tally = tally if tally is not None else Tally()
    for source, target in pairs:
        pair = Pair(normalize(source), normalize(target))
        if pair.source and pair.target:
            tally.kept += 1
            yield pair
        else:
            tally.dropped["empty"] += 1


def clean(pairs: Iterable[Pair], config: CleaningConfig, tally: Tally | None = None) -> Iterator[Pair]:
    """The normalized pairs that pass all checks, in order, as a stream."""
    tally = tally if tally is not None else Tally()
    seen = HashSet()
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK)):
        kept = []
        for source, target in chunk:
            pair = Pair(normalize(source), normalize(target))
            if reason := drop_reason(pair, config):
                tally.dropped[reason] += 1
            else:
                kept.append(pair)
        if config.drop_duplicates and kept:
            fresh = seen.add(np.array([_hash(pair) for pair in kept], dtype=np.uint64))
            if repeated := len(kept) - int(fresh.sum()):
                tally.dropped["duplicate"] += repeated
            kept = [pair for pair, new in zip(kept, fresh.tolist(), strict=True) if new]
        tally.kept += len(kept)
        yield from kept


def matched(pairs: Iterable[Pair], tally: Tally | None = None) -> Iterator[Pair]:
    """The cleaned pairs whose sides agree in punctuation."""
    for pair in pairs:
        if not is_mismatched(pair):
            yield pair
        elif tally is not None:
            tally.kept -= 1
            tally.dropped["mismatched punctuation"] += 1


def sample(pairs: Iterable[Pair], share: float, without: Iterable[Pair] = ()) -> Iterator[Pair]:
    """A share of the pairs, chosen by their hash, none of which has a sentence of `without`."""
    limit = int(share * 2**64)
    left_out = {normalize(sentence).casefold() for pair in without for sentence in pair}
    for pair in pairs:
        if _hash(pair) < limit and not any(normalize(one).casefold() in left_out for one in pair):
            yield pair


def drop_reason(pair: Pair, config: CleaningConfig) -> str | None:
    """Why a normalized pair is dropped, or None; duplicates are not checked here."""
    source, target = pair
    if not source or not target:
        return "empty"
    shorter, longer = sorted((len(source), len(target)))
    # A text has fewer spaces than characters, so words rarely need counting.
    if longer > config.max_characters or (
        longer > config.max_words and max(source.count(" "), target.count(" ")) >= config.max_words
    ):
        return "too long"
    if longer + SLACK > config.ratio * (shorter + SLACK):
        return "unequal lengths"
    if config.drop_identical and source == target:
        return "identical"
    return None


class HashSet:
    """A set of 64-bit hashes at eight bytes each: sorted runs, merged as they grow."""

    def __init__(self):
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Adds hashes and returns which of them are new."""
        fresh = np.zeros(len(hashes), dtype=bool)
        fresh[np.unique(hashes, return_index=True)[1]] = True
        for run in self._runs:
            nearest = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            fresh &= run[nearest] != hashes
        run = np.sort(hashes[fresh])
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)
        return fresh


def _hash(pair: Pair) -> int:
    text = f"{pair.source}\t{pair.target}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")

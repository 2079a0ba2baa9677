"""Splits corpora of pairs into training, validation and test parts that share no sentence."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.pair import Pair
from clearhead.errors import DataError
from clearhead.text.normalize import normalize
from clearhead.wording import counted

Part = Literal["train", "validation", "test"]
HeldOut = dict[Literal["validation", "test"], list[Pair]]
Keys = NDArray[np.uint64]
CHUNK = 1 << 16


@dataclass(frozen=True)
class UnsplitCorpus:
    """The pairs of a corpus, and the numbers of pairs to hold out for validation and test."""

    pairs: Iterable[Pair]
    languages: tuple[str, str]
    validation: int
    test: int

    @property
    def key_side(self) -> int:
        """The English side if there is one, else the source."""
        return 1 if self.languages[1] == "en" else 0

    @property
    def key_language(self) -> str:
        return self.languages[self.key_side]


@dataclass(frozen=True)
class Split:
    """Assigns each pair to a part by the hash of its key sentence.

    The key is the English side if there is one, else the source. So all translations of a sentence are in the
    same part, and both directions of a language pair with English have the same parts. Sentences that another
    corpus of the run holds out are not trained on here either, on whichever side they occur.
    """

    key_side: int
    seed: int
    validation_size: int
    test_size: int
    validation: frozenset[int]
    test: frozenset[int]
    held_out: tuple[frozenset[int], frozenset[int]]
    """Keys in the source's and the target's language that any corpus holds out."""

    def part(self, pair: Pair) -> Part | None:
        """The part of a pair; None if only another corpus holds its sentence out."""
        key = _hash(pair[self.key_side], self.seed)
        if key in self.test:
            return "test"
        if key in self.validation:
            return "validation"
        # The key of another corpus may be the other side of this one.
        other = 1 - self.key_side
        is_key_elsewhere = self.held_out[other] and _hash(pair[other], self.seed) in self.held_out[other]
        return None if key in self.held_out[self.key_side] or is_key_elsewhere else "train"

    def train(self, pairs: Iterable[Pair], held_out: HeldOut) -> Iterator[Pair]:
        """The pairs to train on; the others are added to `held_out` on the way, up to the exact sizes."""
        sizes = {"validation": self.validation_size, "test": self.test_size}
        for pair in pairs:
            part = self.part(pair)
            if part == "train":
                yield pair
            elif part and len(held_out[part]) < sizes[part]:
                held_out[part].append(pair)


def hold_out(corpora: Sequence[UnsplitCorpus], seed: int = 0) -> list[Split]:
    """The split of each corpus, found in one pass; memory grows only with the number of pairs held out.

    A corpus tests on the lowest hashes of its keys, and validates on the next that no corpus tests on. A key
    with more pairs than requested is skipped, because training would lose all of them. A corpus that
    holds nothing out is not read.
    """
    # Twice the requested number, so that some can be skipped.
    most = 2 * sum(corpus.validation + corpus.test for corpus in corpora) + 1
    lowest = [(one, *_lowest(_hashes(one, seed), most)) for one in corpora]
    tests = [_first(keys, counts, corpus.test) for corpus, keys, counts, _ in lowest]
    tested = np.unique(np.concatenate(tests))
    validations = []
    for corpus, keys, counts, _ in lowest:
        free = ~np.isin(keys, tested)
        validations.append(_first(keys[free], counts[free], corpus.validation))
    held_out: dict[str, frozenset[int]] = {}
    for corpus, *own in zip(corpora, validations, tests, strict=True):
        known = held_out.get(corpus.key_language, frozenset())
        held_out[corpus.key_language] = known.union(*(keys.tolist() for keys in own))
    splits = []
    for (corpus, keys, _, total), validation, test in zip(lowest, validations, tests, strict=True):
        # Of a corpus that holds nothing out, such as a small sample of another run, none need be left.
        holds_out = corpus.validation or corpus.test
        if holds_out and held_out[corpus.key_language].issuperset(keys.tolist()):
            which = f"{'-'.join(corpus.languages)}: " if len(corpora) > 1 else ""
            raise DataError(
                f"{which}{counted(corpus.validation, 'pair')} for validation and {corpus.test:,} for testing "
                f"leave none of {total:,} to train on; hold out fewer"
            )
        own = frozenset(validation.tolist()), frozenset(test.tolist())
        source, target = (held_out.get(language, frozenset()) for language in corpus.languages)
        sizes = corpus.validation, corpus.test
        splits.append(Split(corpus.key_side, seed, *sizes, *own, held_out=(source, target)))
    return splits


def _hashes(corpus: UnsplitCorpus, seed: int) -> Iterator[int]:
    """The hashes of all keys; none if nothing is held out of the corpus, which is not read then."""
    if corpus.validation or corpus.test:
        for pair in corpus.pairs:
            yield _hash(pair[corpus.key_side], seed)


def _lowest(hashes: Iterator[int], most: int) -> tuple[Keys, NDArray[np.int64], int]:
    """The lowest distinct hashes in order, the count of each, and the number of all hashes."""
    keys, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    total = 0
    while chunk := list(islice(hashes, CHUNK)):
        total += len(chunk)
        seen = np.concatenate([keys, np.array(chunk, dtype=np.uint64)])
        times = np.concatenate([counts, np.ones(len(chunk), dtype=np.int64)])
        keys, indices = np.unique(seen, return_inverse=True)
        counts = np.bincount(indices, times).astype(np.int64)
        keys, counts = keys[:most], counts[:most]
    return keys, counts, total


def _first(keys: Keys, counts: NDArray[np.int64], wanted: int) -> Keys:
    """The first keys with `wanted` pairs in total; a key with more pairs alone only if there is no choice."""
    rare = counts <= wanted
    if int(counts[rare].sum()) >= wanted:
        keys, counts = keys[rare], counts[rare]
    return keys[: int(np.searchsorted(np.cumsum(counts), wanted)) + 1] if wanted else keys[:0]


def _hash(text: str, seed: int) -> int:
    if seed < 1 << 63:
        salt = seed.to_bytes(8, "little", signed=True)
    else:
        salt = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    key = normalize(text).casefold().encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, salt=salt).digest(), "little")

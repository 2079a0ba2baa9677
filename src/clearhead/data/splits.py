"""Training, validation and test parts such that no sentence lies in two of them, in whichever corpus."""

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

Part = Literal["train", "validation", "test"]
HeldOut = dict[Literal["validation", "test"], list[Pair]]
Keys = NDArray[np.uint64]
CHUNK = 1 << 16


@dataclass(frozen=True)
class Whole:
    """A corpus before it is split, and how many of its pairs are wanted for validation and test."""

    pairs: Iterable[Pair]
    languages: tuple[str, str]
    validation: int
    test: int

    @property
    def key_side(self) -> int:
        """The English side where there is one, else the source."""
        return 1 if self.languages[1] == "en" else 0

    @property
    def key_language(self) -> str:
        return self.languages[self.key_side]


@dataclass(frozen=True)
class Split:
    """The parts of a corpus, told by the hash of a pair's key sentence.

    The key is the English side where there is one, else the source: all translations of a sentence stay
    together, and both directions of a language pair with English have the same parts. What another corpus
    of the same run holds out is not trained on here either, on whichever side it stands.
    """

    key_side: int
    seed: int
    validation_size: int
    test_size: int
    validation: frozenset[int]
    test: frozenset[int]
    held: tuple[frozenset[int], frozenset[int]]
    """What all corpora hold out of the languages of source and target."""

    def part(self, pair: Pair) -> Part | None:
        """Where a pair belongs; None: nowhere, as another corpus holds its sentence out."""
        key = _hash(pair[self.key_side], self.seed)
        if key in self.test:
            return "test"
        if key in self.validation:
            return "validation"
        return None if key in self.held[self.key_side] or self._is_key_elsewhere(pair) else "train"

    def _is_key_elsewhere(self, pair: Pair) -> bool:
        """Whether the side that is no key here is one that a corpus without this key's language holds out."""
        side = 1 - self.key_side
        return bool(self.held[side]) and _hash(pair[side], self.seed) in self.held[side]

    def train(self, pairs: Iterable[Pair], held: HeldOut) -> Iterator[Pair]:
        """The pairs to train on; the others are put into `held` as they go by.

        There they are exactly as many as asked for; what the last sentence has beyond that goes nowhere.
        """
        sizes = {"validation": self.validation_size, "test": self.test_size}
        for pair in pairs:
            part = self.part(pair)
            if part == "train":
                yield pair
            elif part and len(held[part]) < sizes[part]:
                held[part].append(pair)


def hold_out(corpora: Sequence[Whole], seed: int = 0) -> list[Split]:
    """The split of each corpus, found in one pass over it; memory grows with what is held out.

    A corpus tests on the lowest of its keys' hashes, and validates on the next that none tests on. A key with
    more pairs than are wanted is passed over: all of them would be lost to training.
    """
    # Twice as many as are wanted, so that some can be passed over.
    most = 2 * sum(corpus.validation + corpus.test for corpus in corpora) + 1
    counted = [
        _lowest((_hash(pair[corpus.key_side], seed) for pair in corpus.pairs), most) for corpus in corpora
    ]
    tests = [
        _first(keys, counts, corpus.test) for corpus, (keys, counts, _) in zip(corpora, counted, strict=True)
    ]
    tested = np.unique(np.concatenate(tests))
    validations = []
    for corpus, (keys, counts, _) in zip(corpora, counted, strict=True):
        free = ~np.isin(keys, tested)
        validations.append(_first(keys[free], counts[free], corpus.validation))
    held: dict[str, frozenset[int]] = {}
    for corpus, *own in zip(corpora, validations, tests, strict=True):
        known = held.get(corpus.key_language, frozenset())
        held[corpus.key_language] = known.union(*(keys.tolist() for keys in own))
    splits = []
    for corpus, (keys, _, total), validation, test in zip(corpora, counted, validations, tests, strict=True):
        if held[corpus.key_language].issuperset(keys.tolist()):
            which = f"{'-'.join(corpus.languages)}: " if len(corpora) > 1 else ""
            raise DataError(
                f"{which}{corpus.validation} pairs for validation and {corpus.test} for testing leave none "
                f"of {total} to train on; hold out fewer"
            )
        own = frozenset(validation.tolist()), frozenset(test.tolist())
        source, target = (held.get(language, frozenset()) for language in corpus.languages)
        sizes = corpus.validation, corpus.test
        splits.append(Split(corpus.key_side, seed, *sizes, *own, held=(source, target)))
    return splits


def _lowest(hashes: Iterator[int], most: int) -> tuple[Keys, NDArray[np.int64], int]:
    """The lowest distinct hashes in order, how often each occurs, and the number of all hashes."""
    keys, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    total = 0
    while chunk := list(islice(hashes, CHUNK)):
        total += len(chunk)
        met = np.concatenate([keys, np.array(chunk, dtype=np.uint64)])
        times = np.concatenate([counts, np.ones(len(chunk), dtype=np.int64)])
        keys, places = np.unique(met, return_inverse=True)
        counts = np.bincount(places, times).astype(np.int64)
        keys, counts = keys[:most], counts[:most]
    return keys, counts, total


def _first(keys: Keys, counts: NDArray[np.int64], wanted: int) -> Keys:
    """As many of the keys as have so many pairs together; one that alone has more, only in need."""
    rare = counts <= wanted
    if int(counts[rare].sum()) >= wanted:
        keys, counts = keys[rare], counts[rare]
    return keys[: int(np.searchsorted(np.cumsum(counts), wanted)) + 1] if wanted else keys[:0]


def _hash(text: str, seed: int) -> int:
    key = normalize(text).casefold().encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, salt=_salt(seed)).digest(), "little")


def _salt(seed: int) -> bytes:
    """Eight bytes of any seed; one too large for them is hashed."""
    if seed < 1 << 63:
        return seed.to_bytes(8, "little", signed=True)
    return hashlib.blake2b(str(seed).encode(), digest_size=8).digest()

"""Training, validation and test parts such that no sentence lies in two of them."""

import hashlib
from collections.abc import Iterable, Iterator
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
CHUNK = 1 << 16


@dataclass(frozen=True)
class Split:
    """Decides by the hash of a pair's key sentence; the lowest hashes are the test part, the next validation.

    The key is the English side where there is one, else the source: all translations of a sentence stay
    together, and both directions of a language pair with English have the same parts.
    """

    key_side: int
    seed: int
    validation_size: int
    test_size: int
    test_end: int
    validation_end: int

    def part(self, pair: Pair) -> Part:
        """Where a pair belongs."""
        place = _hash(pair[self.key_side], self.seed)
        if place < self.test_end:
            return "test"
        return "validation" if place < self.validation_end else "train"

    def train(self, pairs: Iterable[Pair], held: HeldOut) -> Iterator[Pair]:
        """The pairs to train on; the others are put into `held` as they go by.

        There they are exactly as many as asked for; what the last sentence has beyond that goes nowhere.
        """
        sizes = {"validation": self.validation_size, "test": self.test_size}
        for pair in pairs:
            part = self.part(pair)
            if part == "train":
                yield pair
            elif len(held[part]) < sizes[part]:
                held[part].append(pair)


def hold_out(
    pairs: Iterable[Pair], languages: tuple[str, str], validation: int, test: int, seed: int = 0
) -> Split:
    """The bounds below which enough pairs lie, found in one pass; memory grows with what is held out."""
    side = 1 if languages[1] == "en" else 0
    hashes = (_hash(pair[side], seed) for pair in pairs)
    keys, counts, total = _lowest(hashes, most=validation + test + 1)
    cumulated = np.cumsum(counts)
    test_keys = int(np.searchsorted(cumulated, test)) + 1 if test else 0
    tested = int(cumulated[min(test_keys, len(cumulated)) - 1]) if test and total else 0
    held_keys = int(np.searchsorted(cumulated, tested + validation)) + 1 if validation else test_keys
    if held_keys >= len(keys):
        raise DataError(
            f"{validation} pairs for validation and {test} for testing leave none of {total} to train on; "
            "hold out fewer"
        )
    return Split(side, seed, validation, test, _bound(keys, test_keys), _bound(keys, held_keys))


def _lowest(hashes: Iterator[int], most: int) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
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


def _bound(keys: NDArray[np.uint64], count: int) -> int:
    """A number above the first `count` keys and not above the next."""
    return int(keys[count - 1]) + 1 if count else 0


def _hash(text: str, seed: int) -> int:
    key = normalize(text).casefold().encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, salt=_salt(seed)).digest(), "little")


def _salt(seed: int) -> bytes:
    """Eight bytes of any seed; one too large for them is hashed."""
    if seed < 1 << 63:
        return seed.to_bytes(8, "little", signed=True)
    return hashlib.blake2b(str(seed).encode(), digest_size=8).digest()

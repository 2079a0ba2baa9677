"""BPE dropout: the same words cut differently each time, but always the same for the same seed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Keys = NDArray[np.uint64]
NEVER = np.int32(2**31 - 1)
# The steps of a Weyl sequence and the mixing of its numbers (SplitMix64; Steele, Lea and Flood 2014).
WEYL, MIX, MIX_AGAIN = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mixed(numbers: Keys) -> Keys:
    """Numbers in which every bit depends on all bits of the given ones."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * MIX
    numbers = (numbers ^ (numbers >> np.uint64(27))) * MIX_AGAIN
    return numbers ^ (numbers >> np.uint64(31))


def keys(seed: Sequence[int], *places: NDArray[np.integer]) -> Keys:
    """One key for each tuple of places; from a key follow all draws for what stands there."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (*(np.array([number], dtype=np.uint64) for number in seed), *places):
        key = mixed(key + WEYL + part.astype(np.uint64))
    return key


def draws(key: Keys, number: Keys | np.uint64) -> Keys:
    """The draws of those numbers that belong to each key: any of 64 bits, all alike probable."""
    return mixed(key + number * WEYL)


class MergeDropout:
    """Byte pair encoding that leaves out merges at random (Provilkov, Emelianenko and Voita 2020).

    At each step the possible merges are tried in the order of their ranks; each is passed over with the
    probability of dropout, and the word is finished when all are. All words go through it at once.
    """

    def __init__(self, merges: Sequence[tuple[str, str]], ids: Mapping[str, int], probability: float):
        self.probability = probability
        self._limit = np.uint64(min(int(probability * 2**64), 2**64 - 1))
        self._merged = np.array([ids[left + right] for left, right in merges], dtype=np.int32)
        # Of a pair that is there twice, the first counts; the last one, which no ids make, ends every search.
        pairs = [ids[left] << 32 | ids[right] for left, right in merges]
        self._pairs, ranks = np.unique(np.array([*pairs, 2**63 - 1], dtype=np.int64), return_index=True)
        self._ranks = ranks.astype(np.int32)
        # What no pair has on either side.
        self._nothing = max(ids.values()) + 1

    def unkept(self, merges: NDArray[np.integer], key: Keys) -> NDArray[np.bool_]:
        """Which words, that take so many merges to be whole, lose one of them."""
        return self._first_loss(key) < merges

    def split(self, characters: Ids, lengths: NDArray[np.integer], key: Keys) -> tuple[Ids, Ids]:
        """The ids of the pieces of words that lose a merge, and how many pieces each has.

        The characters of a word are a row, padded on the right.
        """
        pieces = np.where(np.arange(characters.shape[1]) < lengths[:, None], characters, self._nothing)
        counts = lengths.astype(np.int32)
        done = np.array(pieces)
        loss = self._first_loss(key)
        active = np.arange(len(pieces))
        for step in range(characters.shape[1] - 1):
            ranks = self._open(self._ranks_of(pieces), loss - step, key, step)
            place = ranks.argmin(1)[:, None]
            rank = np.take_along_axis(ranks, place, 1)
            going = rank[:, 0] != NEVER
            done[active[~going], : pieces.shape[1]] = pieces[~going]
            active, key, loss = active[going], key[going], loss[going]
            counts[active] -= 1
            pieces = self._joined(pieces[going], place[going], rank[going])
        done[active, : pieces.shape[1]] = pieces
        return done, counts

    def _first_loss(self, key: Keys) -> NDArray[np.float64]:
        """How many merges go well before one is passed over."""
        with np.errstate(divide="ignore"):
            scale = math.log1p(-self.probability) if self.probability < 1 else -math.inf
            return np.floor(np.log1p((draws(key, np.uint64(0)) >> np.uint64(11)) * -(2.0**-53)) / scale)

    def _open(self, ranks: Ids, until_loss: NDArray[np.float64], key: Keys, step: int) -> Ids:
        """The ranks of the merges that are not passed over at a step."""
        # Up to the first loss, the best merge of each step is known to be kept, and the next one to be lost.
        losing = until_loss == 0
        best = ranks.argmin(1)[:, None]
        here = np.arange(1, ranks.shape[1] + 1, dtype=np.uint64) + np.uint64(step * 1024)
        lost = (draws(key[:, None], here) < self._limit) & (until_loss <= 0)[:, None]
        np.put_along_axis(lost, best, np.take_along_axis(lost, best, 1) | losing[:, None], 1)
        return np.where(lost, NEVER, ranks)

    def _joined(self, pieces: Ids, place: NDArray[np.intp], rank: Ids) -> Ids:
        """One piece less in each row, the two at a place being one."""
        kept = np.where(np.arange(pieces.shape[1] - 1) > place, pieces[:, 1:], pieces[:, :-1])
        np.put_along_axis(kept, place, self._merged[rank], 1)
        return kept

    def _ranks_of(self, pieces: Ids) -> Ids:
        """The rank of each piece with the one after it; NEVER where they do not merge."""
        pairs = pieces[:, :-1].astype(np.int64) << 32 | pieces[:, 1:]
        found = np.searchsorted(self._pairs, pairs)
        return np.where(self._pairs[found] == pairs, self._ranks[found], NEVER)

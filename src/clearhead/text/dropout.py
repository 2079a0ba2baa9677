"""BPE dropout: random subwords that depend only on a key."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Keys = NDArray[np.uint64]
NEVER = np.int32(2**31 - 1)
# The increment of a Weyl sequence and the constants of its mixing function (SplitMix64; Steele et al. 2014).
WEYL, MIX, MIX_AGAIN = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mix(numbers: Keys) -> Keys:
    """Hashes of numbers: every bit depends on all input bits."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * MIX
    numbers = (numbers ^ (numbers >> np.uint64(27))) * MIX_AGAIN
    return numbers ^ (numbers >> np.uint64(31))


def random_keys(seed: Sequence[int], *coordinates: NDArray[np.integer]) -> Keys:
    """One key for each tuple of coordinates; it determines all random numbers there."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (*(np.array([number], dtype=np.uint64) for number in seed), *coordinates):
        key = mix(key + WEYL + part.astype(np.uint64))
    return key


def random_bits(key: Keys, number: Keys | np.uint64) -> Keys:
    """64 uniform random bits for each key and number."""
    return mix(key + number * WEYL)


class MergeDropout:
    """Byte pair encoding that skips merges at random (Provilkov, Emelianenko and Voita 2020).

    Each step tries the possible merges in the order of their ranks and skips each with the given probability;
    a word is finished when all are skipped. All words are processed at once.
    """

    def __init__(self, merges: Sequence[tuple[str, str]], ids: Mapping[str, int], probability: float):
        self.probability = probability
        self._limit = np.uint64(min(int(probability * 2**64), 2**64 - 1))
        self._merged = np.array([ids[left + right] for left, right in merges], dtype=np.int32)
        # The first of equal pairs counts. The last pair, which no ids form, ends every search.
        pairs = [ids[left] << 32 | ids[right] for left, right in merges]
        self._pairs, ranks = np.unique(np.array([*pairs, 2**63 - 1], dtype=np.int64), return_index=True)
        self._ranks = ranks.astype(np.int32)
        # An id that no pair contains.
        self._nothing = max(ids.values()) + 1

    def drops(self, merges: NDArray[np.integer], key: Keys) -> NDArray[np.bool_]:
        """Whether words that take this many merges lose one of them."""
        return self._first_drop(key) < merges

    def split(self, characters: Ids, lengths: NDArray[np.integer], key: Keys) -> tuple[Ids, Ids]:
        """The subword ids of words that lose a merge, and how many; `characters` has one word per row."""
        pieces = np.where(np.arange(characters.shape[1]) < lengths[:, None], characters, self._nothing)
        counts = lengths.astype(np.int32)
        done = np.array(pieces)
        drop = self._first_drop(key)
        active = np.arange(len(pieces))
        for step in range(characters.shape[1] - 1):
            ranks = self._open(self._ranks_of(pieces), drop - step, key, step)
            index = ranks.argmin(1)[:, None]
            rank = np.take_along_axis(ranks, index, 1)
            going = rank[:, 0] != NEVER
            done[active[~going], : pieces.shape[1]] = pieces[~going]
            active, key, drop = active[going], key[going], drop[going]
            counts[active] -= 1
            pieces = self._merge(pieces[going], index[going], rank[going])
        done[active, : pieces.shape[1]] = pieces
        return done, counts

    def _first_drop(self, key: Keys) -> NDArray[np.float64]:
        """The number of merges before the first one is skipped."""
        with np.errstate(divide="ignore"):
            scale = math.log1p(-self.probability) if self.probability < 1 else -math.inf
            return np.floor(np.log1p((random_bits(key, np.uint64(0)) >> np.uint64(11)) * -(2.0**-53)) / scale)

    def _open(self, ranks: Ids, until_drop: NDArray[np.float64], key: Keys, step: int) -> Ids:
        """The ranks of the merges that are not skipped at a step."""
        # Before the first drop, the best merge of each step is kept; at the first drop, it is skipped.
        dropping = until_drop == 0
        best = ranks.argmin(1)[:, None]
        here = np.arange(1, ranks.shape[1] + 1, dtype=np.uint64) + np.uint64(step * 1024)
        skipped = (random_bits(key[:, None], here) < self._limit) & (until_drop <= 0)[:, None]
        np.put_along_axis(skipped, best, np.take_along_axis(skipped, best, 1) | dropping[:, None], 1)
        return np.where(skipped, NEVER, ranks)

    def _merge(self, pieces: Ids, index: NDArray[np.intp], rank: Ids) -> Ids:
        """The rows with the two pieces at `index` merged."""
        merged = np.where(np.arange(pieces.shape[1] - 1) > index, pieces[:, 1:], pieces[:, :-1])
        np.put_along_axis(merged, index, self._merged[rank], 1)
        return merged

    def _ranks_of(self, pieces: Ids) -> Ids:
        """The rank of each piece with the next; NEVER if they do not merge."""
        pairs = pieces[:, :-1].astype(np.int64) << 32 | pieces[:, 1:]
        found = np.searchsorted(self._pairs, pairs)
        return np.where(self._pairs[found] == pairs, self._ranks[found], NEVER)

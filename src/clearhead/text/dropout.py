"""BPE dropout: the same text cut differently each time, but always the same for the same seed."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

REMEMBERED_WORDS = 100_000


class Drops:
    """A row of chances, each lost with one probability, drawn as the gaps between the losses."""

    def __init__(self, probability: float, random: Random):
        self.scale = math.log1p(-probability) if probability < 1 else -math.inf
        self.random = random
        self.gap = self._draw()

    def none_in(self, chances: int) -> bool:
        """Whether the next chances are all kept; if so, they are used up."""
        if self.gap < chances:
            return False
        self.gap -= chances
        return True

    def next(self) -> bool:
        if self.none_in(1):
            return False
        self.gap = self._draw()
        return True

    def _draw(self) -> float:
        return math.inf if self.scale == 0 else math.floor(math.log(1 - self.random.random()) / self.scale)


class MergeDropout:
    """Byte pair encoding that leaves out merges at random (Provilkov, Emelianenko and Voita 2020).

    At each step the possible merges are tried in the order of their ranks; each is passed over with
    the probability of dropout, and the word is finished when all are.
    """

    def __init__(self, merges: Sequence[tuple[str, str]], ids: Mapping[str, int], unknown: int):
        self.ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self.ids = ids
        self.unknown = unknown
        self.remembered: dict[str, tuple[int, list[int]]] = {}

    def encode(self, word: str, drops: Drops) -> list[int]:
        """The ids of a word's pieces."""
        merges, ids = self._whole(word)
        if drops.none_in(merges):
            return ids
        return self._ids(self._pieces(word, drops))

    def _whole(self, word: str) -> tuple[int, list[int]]:
        """How many merges the word takes without dropout, and what comes of them."""
        known = self.remembered.get(word)
        if known is None:
            pieces = self._pieces(word, None)
            known = len(word) - len(pieces), self._ids(pieces)
            if len(self.remembered) < REMEMBERED_WORDS:
                self.remembered[word] = known
        return known

    def _pieces(self, word: str, drops: Drops | None) -> list[str]:
        pieces = list(word)
        while True:
            ranked = [
                (rank, place)
                for place, pair in enumerate(pairwise(pieces))
                if (rank := self.ranks.get(pair)) is not None
            ]
            if drops is None:
                kept = min(ranked, default=None)
            else:
                kept = next((merge for merge in sorted(ranked) if not drops.next()), None)
            if kept is None:
                return pieces
            place = kept[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]

    def _ids(self, pieces: list[str]) -> list[int]:
        """Like the library, a run of unknown characters is one unknown."""
        ids: list[int] = []
        for piece in pieces:
            number = self.ids.get(piece, self.unknown)
            if not (number == self.unknown and ids and ids[-1] == self.unknown):
                ids.append(number)
        return ids

"""Pairs whose words are split anew in every epoch (BPE dropout; Provilkov et al. 2020)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import PairStore, Side
from clearhead.text.dropout import Keys, keys
from clearhead.text.tokenizer import Tokenizer

Rows = NDArray[np.int64]
# Words of nearly the same length are split together, for rows with little padding.
LENGTHS = (4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30)


class BPEDropout:
    """The pairs of a store with words split at random: `splitting(epoch, rows)`.

    How a word is split follows from the seed, the epoch and its place in the store: neither the order of the
    rows nor a resumed run changes anything. A sentence that would outgrow `longest` stays as it is stored.
    """

    def __init__(
        self, store: PairStore, tokenizer: Tokenizer, probability: float, seed: int, max_length: int
    ):
        self.seed, self.max_length = seed, max_length
        self.dropout = tokenizer.dropout(probability)
        self.vocabulary = _Words(tokenizer)
        self.sides = [_InWords(side, self.vocabulary) for side in (store.source, store.target)]

    def __call__(self, epoch: int, rows: Rows) -> tuple[Side, Side]:
        source, target = (self._side(number, epoch, rows) for number in (0, 1))
        return source, target

    def _side(self, number: int, epoch: int, rows: Rows) -> Side:
        words, ends = self.sides[number].gather(rows)
        counts = np.diff(ends, prepend=0)
        row = np.repeat(np.arange(len(rows)), counts)
        key = keys((self.seed, epoch, number), rows[row], np.arange(len(words)) - (ends - counts)[row])
        losing, pieces = self._pieces(words, key)
        whole = self.vocabulary.whole
        everything, chosen = Side.joined([whole, pieces]), np.array(words)
        chosen[losing] = len(whole) + np.arange(len(pieces))
        too_long = np.bincount(row, everything.lengths[chosen], len(rows)) > self.max_length
        chosen = np.where(too_long[row], words, chosen)
        flat = everything.gather(chosen)
        return Side(flat.ids, np.concatenate([[0], flat.offsets[ends]]))

    def _pieces(self, words: Rows, key: Keys) -> tuple[Rows, Side]:
        """Which words lose a merge, and what becomes of each."""
        merges, characters = self.vocabulary.merges, self.vocabulary.characters
        losing = np.flatnonzero(self.dropout.unkept(merges[words], key))
        lengths = characters.lengths[words[losing]]
        order = np.argsort(lengths, kind="stable")
        groups = np.split(losing[order], np.searchsorted(lengths[order], LENGTHS, side="right"))
        parts = [Side.of([])]
        for group in groups:
            if len(group):
                of_words = characters.gather(words[group])
                ids, counts = self.dropout.split(of_words.rows(), of_words.lengths, key[group])
                parts.append(Side.of_rows(ids, counts))
        return losing[order], Side.joined(parts)


class _Words:
    """Every word met so far, by number: its ids, those of its characters, and the merges between them."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.whole, self.characters = Side.of([]), Side.of([])
        self._numbers: dict[tuple[int, ...], int] = {}

    @property
    def merges(self) -> NDArray[np.int32]:
        return self.characters.lengths - self.whole.lengths

    def read(self, sentences: Sequence[Sequence[int]]) -> list[NDArray[np.int32]]:
        """The numbers of the words of sentences."""
        found = self.tokenizer.words(sentences)
        numbers = self._numbers
        read = [
            np.array([numbers.setdefault(tuple(word), len(numbers)) for word in sentence], dtype=np.int32)
            for sentence in found
        ]
        new = list(numbers)[len(self.whole) :]
        self.whole = Side.joined([self.whole, Side.of(new)])
        # A word whose characters are not known is left whole: it takes no merges.
        characters = [self.tokenizer.characters(word) or word for word in new]
        self.characters = Side.joined([self.characters, Side.of(characters)])
        return read


class _InWords:
    """SameSegment of one side as numbers of words, found when they are first asked for."""

    def __init__(self, side: Side, words: _Words):
        self.side, self.words = side, words
        # A sentence has no more words than ids, so its words lie where its ids do.
        self._numbers = np.empty(len(side.ids), dtype=np.int32)
        self._counts = np.zeros(len(side), dtype=np.int32)

    def gather(self, rows: Rows) -> tuple[Rows, Rows]:
        """The words of some sentences end to end, and where each sentence ends."""
        starts = self.side.offsets[rows]
        new = self._counts[rows] == 0
        if new.any():
            read = self.words.read([self.side[row].tolist() for row in rows[new]])
            for start, numbers in zip(starts[new], read, strict=True):
                self._numbers[start : start + len(numbers)] = numbers
            self._counts[rows[new]] = [len(numbers) for numbers in read]
        counts = self._counts[rows]
        ends = np.cumsum(counts, dtype=np.int64)
        places = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
        return self._numbers[places].astype(np.int64), ends

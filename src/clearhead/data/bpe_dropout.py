"""BPE dropout (Provilkov et al. 2020) for stored pairs: words are split differently in every epoch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import PairStore, TokenSequences
from clearhead.text.dropout import Keys, random_keys
from clearhead.text.tokenizer import Tokenizer

Rows = NDArray[np.int64]
# Words of nearly the same length are split at once, in rows with little padding.
LENGTHS = (4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30)


class BPEDropout:
    """The pairs of a store with words split at random: `dropout(epoch, rows)`.

    The split of a word depends only on the seed, the epoch and the word's position in the store, so neither
    the order of the rows nor a resumed run changes it. A sentence that would become longer than `max_length`
    stays as it is stored.
    """

    def __init__(
        self, store: PairStore, tokenizer: Tokenizer, probability: float, seed: int, max_length: int
    ):
        self.seed, self.max_length = seed, max_length
        self.dropout = tokenizer.dropout(probability)
        self.words = _Words(tokenizer)
        self.sides = [_WordSequences(side, self.words) for side in (store.source, store.target)]

    def __call__(self, epoch: int, rows: Rows) -> tuple[TokenSequences, TokenSequences]:
        source, target = (self._side(number, epoch, rows) for number in (0, 1))
        return source, target

    def _side(self, number: int, epoch: int, rows: Rows) -> TokenSequences:
        words, ends = self.sides[number].gather(rows)
        counts = np.diff(ends, prepend=0)
        row = np.repeat(np.arange(len(rows)), counts)
        index = np.arange(len(words)) - (ends - counts)[row]
        key = random_keys((self.seed, epoch, number), rows[row], index)
        dropped, subwords = self._split(words, key)
        whole = self.words.whole
        tokens, chosen = TokenSequences.joined([whole, subwords]), np.array(words)
        chosen[dropped] = len(whole) + np.arange(len(subwords))
        too_long = np.bincount(row, tokens.lengths[chosen], len(rows)) > self.max_length
        chosen = np.where(too_long[row], words, chosen)
        flat = tokens.gather(chosen)
        return TokenSequences(flat.ids, np.concatenate([[0], flat.offsets[ends]]))

    def _split(self, words: Rows, key: Keys) -> tuple[Rows, TokenSequences]:
        """Which words lose a merge, and the subwords of each."""
        merges, characters = self.words.merges, self.words.characters
        dropped = np.flatnonzero(self.dropout.drops(merges[words], key))
        lengths = characters.lengths[words[dropped]]
        order = np.argsort(lengths, kind="stable")
        groups = np.split(dropped[order], np.searchsorted(lengths[order], LENGTHS, side="right"))
        parts = [TokenSequences.of([])]
        for group in groups:
            if len(group):
                of_words = characters.gather(words[group])
                ids, counts = self.dropout.split(of_words.rows(), of_words.lengths, key[group])
                parts.append(TokenSequences.of_rows(ids, counts))
        return dropped[order], TokenSequences.joined(parts)


class _Words:
    """Every word seen so far, by number: its ids, those of its characters, and the merges between them."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.whole, self.characters = TokenSequences.of([]), TokenSequences.of([])
        self._numbers: dict[tuple[int, ...], int] = {}

    @property
    def merges(self) -> NDArray[np.int32]:
        return self.characters.lengths - self.whole.lengths

    def numbers(self, sentences: Sequence[Sequence[int]]) -> list[NDArray[np.int32]]:
        """The numbers of the words of sentences; new words get new numbers."""
        known = self._numbers
        found = [
            np.array([known.setdefault(tuple(word), len(known)) for word in sentence], dtype=np.int32)
            for sentence in self.tokenizer.words(sentences)
        ]
        new = list(known)[len(self.whole) :]
        self.whole = TokenSequences.joined([self.whole, TokenSequences.of(new)])
        # A word whose characters are unknown takes no merges, so it stays whole.
        characters = [self.tokenizer.characters(word) or word for word in new]
        self.characters = TokenSequences.joined([self.characters, TokenSequences.of(characters)])
        return found


class _WordSequences:
    """The sentences of one side as word numbers, computed on first use."""

    def __init__(self, side: TokenSequences, words: _Words):
        self.side, self.words = side, words
        # A sentence has no more words than tokens, so the offsets of its tokens serve for its words.
        self._numbers = np.empty(len(side.ids), dtype=np.int32)
        self._counts = np.zeros(len(side), dtype=np.int32)

    def gather(self, rows: Rows) -> tuple[Rows, Rows]:
        """The words of some sentences, concatenated, and the end of each sentence."""
        starts = self.side.offsets[rows]
        new = self._counts[rows] == 0
        if new.any():
            found = self.words.numbers([self.side[row].tolist() for row in rows[new]])
            for start, numbers in zip(starts[new], found, strict=True):
                self._numbers[start : start + len(numbers)] = numbers
            self._counts[rows[new]] = [len(numbers) for numbers in found]
        counts = self._counts[rows]
        ends = np.cumsum(counts, dtype=np.int64)
        indices = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
        return self._numbers[indices].astype(np.int64), ends

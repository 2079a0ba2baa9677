"""Pairs whose copied words become placeholders, so that a model learns to copy whatever they stand for.

After the copyable unknown words of "Addressing the Rare Word Problem in Neural Machine Translation" (Luong
et al. 2015).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batching.buckets import Encode
from clearhead.data.store import PairStore, TokenSequences
from clearhead.text.dropout import WEYL, Keys, mix, random_bits, random_keys
from clearhead.text.tokenizer import Tokenizer

Rows = NDArray[np.int64]
# Sentences in which names are looked for.
NAME_ROWS = 50_000
CHUNK = 50_000
MIN_NAME_COUNT = 2
SYMBOLS = "@/:._&=#%+"
# Of a sentence with placeholders, the share of the words that could be one.
WORDS_REPLACED = 0.75
# Sentences without such a word get a placeholder at an end, a share of the others' rate.
EDGES = 0.25


@dataclass(frozen=True)
class _Words:
    """The words of some sentences that could be placeholders, without punctuation around them."""

    row: Rows
    first: Rows
    last: Rows
    content: Keys
    """A hash of the tokens."""
    initial: NDArray[np.bool_]
    """Whether it is the first word of its sentence."""
    has_symbol: NDArray[np.bool_]

    def __getitem__(self, chosen: NDArray) -> "_Words":
        return _Words(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def can_copy(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer has placeholders, and marks the spaces between words."""
    return bool(tokenizer.placeholder_ids) and tokenizer.id("▁") is not None


class Copying:
    """The pairs of a store with placeholders: `copying(epoch, rows)`.

    What is replaced depends only on the seed, the epoch and the row in the store, so neither the order of the
    rows nor a resumed run changes it. A sentence that would become longer than `max_length` stays as it is.
    """

    def __init__(
        self,
        store: PairStore,
        tokenizer: Tokenizer,
        probability: float,
        seed: int,
        max_length: int,
        encode: Encode | None = None,
    ):
        self.store, self.seed, self.max_length = store, seed, max_length
        self.probability, self._encode = probability, encode or store.gather
        self._placeholders = np.array(tokenizer.placeholder_ids, dtype=np.uint32)
        self._space = tokenizer.id("▁") or 0
        self._tokens = _TokenTraits.of(tokenizer)

    def __call__(self, epoch: int, rows: Rows) -> tuple[TokenSequences, TokenSequences]:
        source, target = self._encode(epoch, rows)
        key = random_keys((self.seed, epoch, 2), rows)
        chosen = _uniform(key, 0) < self.probability
        ours, theirs = self._copied(source, target)
        position = ours.first - source.offsets[ours.row]
        kept = chosen[ours.row] & (_uniform(key[ours.row], position + 8) < WORDS_REPLACED)
        number = _rank(ours.row[kept])
        few = number < len(self._placeholders)
        ours, theirs = ours[kept][few], theirs[kept][few]
        # All placeholders are used equally often.
        offset = (_uniform(key, 1) * len(self._placeholders)).astype(np.int64)
        names = self._placeholders[(number[few] + offset[ours.row]) % len(self._placeholders)]
        edge = np.flatnonzero(_uniform(key, 2) < self.probability * EDGES)
        edge = edge[~np.isin(edge, ours.row)]
        at_start = _uniform(key[edge], 3) < 0.5
        edges = (edge, at_start, self._placeholders[offset[edge]])
        new = self._replaced(source, ours, names, edges), self._replaced(target, theirs, names, edges)
        too_long = (new[0].lengths > self.max_length) | (new[1].lengths > self.max_length)
        if not too_long.any():
            return new
        take = np.arange(len(rows)) + np.where(too_long, 0, len(rows))
        source, target = (
            TokenSequences.joined([old, one]).gather(take)
            for old, one in ((source, new[0]), (target, new[1]))
        )
        return source, target

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The lengths of all sources and of all targets in an epoch."""
        chunks = np.split(np.arange(len(self.store)), range(CHUNK, len(self.store), CHUNK))
        both = [[side.lengths for side in self(epoch, rows)] for rows in chunks]
        return np.concatenate([one for one, _ in both]), np.concatenate([one for _, one in both])

    @cached_property
    def _names(self) -> Keys:
        """The contents of words that are the same on both sides in the middle of sentences: names."""
        ours, theirs = self._same(*self.store.gather(0, np.arange(min(len(self.store), NAME_ROWS))))
        inner = ~(ours.initial | theirs.initial)
        content, counts = np.unique(ours.content[inner], return_counts=True)
        return content[counts >= MIN_NAME_COUNT]

    def _copied(self, source: TokenSequences, target: TokenSequences) -> tuple[_Words, _Words]:
        """The words that a translation copies, on both sides: names and numbers."""
        ours, theirs = self._same(source, target)
        # A capital at the start of a sentence does not make a name: "Was" is a word of two languages.
        name = ~(ours.initial | theirs.initial) | np.isin(ours.content, self._names)
        copied = ours.has_symbol | name
        return ours[copied], theirs[copied]

    def _same(self, source: TokenSequences, target: TokenSequences) -> tuple[_Words, _Words]:
        """The words that are once in both sentences, by row and position in the source."""
        ours, theirs = self._tokens.words(source), self._tokens.words(target)
        keys = [mix(one.content + one.row.astype(np.uint64) * WEYL) for one in (ours, theirs)]
        single = []
        for key in keys:
            _, index, counts = np.unique(key, return_index=True, return_counts=True)
            single.append(np.sort(index[counts == 1]))
        _, left, right = np.intersect1d(
            keys[0][single[0]], keys[1][single[1]], assume_unique=True, return_indices=True
        )
        left, right = single[0][left], single[1][right]
        order = np.argsort(ours.first[left], kind="stable")
        return ours[left[order]], theirs[right[order]]

    def _replaced(
        self, side: TokenSequences, words: _Words, names: NDArray, edges: tuple[Rows, NDArray, NDArray]
    ) -> TokenSequences:
        """The sentences with placeholders instead of words, and at the ends of some."""
        ids, space = side.ids, self._space
        counts = np.ones(len(ids), dtype=np.int64)
        inside = np.zeros(len(ids) + 1, dtype=np.int64)
        np.add.at(inside, words.first + 1, 1)
        np.add.at(inside, words.last + 1, -1)
        counts[np.cumsum(inside[:-1]) > 0] = 0
        spaced = self._tokens.begins[ids[words.first]]
        counts[words.first] = 1 + spaced
        rows, at_start, edge_names = edges
        start = side.offsets[rows]
        start = np.minimum(start + self._tokens.special[ids[start]], side.offsets[rows + 1] - 1)
        position = np.where(at_start, start, side.offsets[rows + 1] - 1)
        counts[position] += 2
        ends = np.cumsum(counts)
        new = np.repeat(ids, counts).astype(np.uint32)
        begin = ends - counts
        new[begin[words.first]] = np.where(spaced, space, names)
        new[begin[words.first] + spaced] = names
        before = begin[position] + np.where(at_start, 0, 1)
        new[begin[position] + np.where(at_start, 2, 0)] = ids[position]
        new[before], new[before + 1] = space, edge_names
        return TokenSequences(new, np.concatenate([[0], ends])[side.offsets])


@dataclass(frozen=True)
class _TokenTraits:
    """What is known of each token by its id."""

    special: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    """Whether a space is before it."""
    punctuation: NDArray[np.bool_]
    symbol: NDArray[np.bool_]
    """Whether it is in a number, an address or a URL: a digit, or one of `SYMBOLS`."""
    capital: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "_TokenTraits":
        pieces = list(map(tokenizer.piece, range(tokenizer.size)))
        special = np.isin(np.arange(len(pieces)), list(tokenizer.special_ids))
        bare = [piece.removeprefix("▁") for piece in pieces]
        symbol = [any(letter.isdecimal() or letter in SYMBOLS for letter in one) for one in bare]
        return cls(
            special,
            np.array([piece.startswith("▁") for piece in pieces]),
            np.array([not any(map(str.isalnum, one)) for one in bare]),
            np.array(symbol) & ~special,
            np.array([one[:1].isupper() for one in bare]) & ~special,
        )

    def words(self, side: TokenSequences) -> _Words:
        """The words between spaces with a symbol in them, or with a capital at their start."""
        ids, index = side.ids.astype(np.int64), np.arange(len(side.ids))
        row = np.repeat(np.arange(len(side)), side.lengths)
        special = self.special[ids]
        after = np.concatenate([[True], special[:-1] | (row[1:] != row[:-1])])[: len(ids)]
        starts = self.begins[ids] | special | after
        first = np.flatnonzero(starts)
        content = ~(special | self.punctuation[ids])
        start = np.minimum.reduceat(np.where(content, index, len(ids)), first)
        last = np.maximum.reduceat(np.where(content, index, -1), first)
        word = np.cumsum(starts) - 1
        inside = (index >= start[word]) & (index <= last[word])
        hashes = mix(ids.astype(np.uint64) + (index - start[word]).astype(np.uint64) * WEYL)
        with np.errstate(over="ignore"):
            content_hash = np.add.reduceat(np.where(inside, hashes, np.uint64(0)), first)
        has_symbol = np.logical_or.reduceat(self.symbol[ids] & inside, first)
        filled = np.flatnonzero(last >= 0)
        initial = np.concatenate([[True], row[first[filled]][1:] != row[first[filled]][:-1]])[: len(filled)]
        found = _Words(
            row[first][filled], start[filled], last[filled], content_hash[filled], initial, has_symbol[filled]
        )
        return found[found.has_symbol | self.capital[ids[found.first]]]


def _uniform(key: Keys, number: int | NDArray) -> NDArray[np.float64]:
    """A random number from 0 to 1 for each key."""
    bits = random_bits(key, np.asarray(number).astype(np.uint64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _rank(rows: Rows) -> Rows:
    """The number of each element among those of its row; rows are in order."""
    starts = np.concatenate([[True], rows[1:] != rows[:-1]])[: len(rows)]
    return np.arange(len(rows)) - np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))

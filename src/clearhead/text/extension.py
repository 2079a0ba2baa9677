"""Extends a trained tokenizer to new text: bytes, letters, subwords and special tokens; old ids stay."""

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Any

import tokenizers

from clearhead.errors import SettingsError
from clearhead.text import serialization
from clearhead.text.kinds import BYTES, KINDS, SPECIAL_TOKENS
from clearhead.text.normalize import without_surrogates
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.training import covering

# More texts do not improve the choice of tokens.
TEXTS = 200_000
# A token seen less often would hardly be trained.
MIN_FREQUENCY = 10
BYTE_TOKENS = frozenset(BYTES)


@dataclass(frozen=True)
class Extension:
    """A tokenizer with more tokens, and what each new one is made of."""

    tokenizer: Tokenizer
    first: int
    """The first new id: the size of the old tokenizer."""
    parts: tuple[tuple[int, ...], ...]
    """For each new id, the older ids that say most about it; empty if there are none."""


def extend(
    tokenizer: Tokenizer, texts: Iterable[str], special_tokens: Sequence[str] = (), new_tokens: int = 2000
) -> Extension:
    """The tokenizer with all bytes, the letters of the texts, at most `new_tokens` of them and of their
    frequent subwords, and further special tokens such as '<2cs>'.

    Every new subword contains a new letter, so text that the old tokenizer could spell has the ids that it
    had. Special tokens that are there already are left out.
    """
    kind = KINDS[tokenizer.config.kind]
    imported = tokenizer.imported or tokenizer.for_targets is not tokenizer
    if imported or not (kind.byte_fallback or kind.byte_level):
        origin = "was imported" if imported else f"is of kind {tokenizer.config.kind}"
        raise SettingsError(f"tokenizer: {origin} and cannot be extended; start from a model of another kind")
    grown = _Growing(tokenizer)
    for token in special_tokens:
        if tokenizer.special_id(token) is None:
            grown.add(token, grown.like(token))
    if kind.byte_fallback:
        grown.fall_back()
        words = _words(tokenizer, islice(texts, TEXTS))
        letters = _letters(words, grown.ids)[:new_tokens]
        for letter in letters:
            base = grown.ids.get(unicodedata.normalize("NFD", letter)[0])
            grown.add(letter, () if base is None else (base,))
        if kind.has_merges:
            spelled = _spelled(grown, words, set(letters))
            for left, right in _Merging(spelled, letters).merges(new_tokens - len(letters)):
                grown.merge(left, right)
    added = tuple(token for token in special_tokens if tokenizer.special_id(token) is None)
    return Extension(grown.tokenizer(added), tokenizer.size, tuple(grown.parts))


class _Growing:
    """The library's description of a tokenizer, to which tokens are added."""

    def __init__(self, tokenizer: Tokenizer):
        self.old = tokenizer
        self.description: dict[str, Any] = json.loads(tokenizer.library_json())
        self.ids = tokenizer.vocabulary()
        self.parts: list[tuple[int, ...]] = []

    def add(self, token: str, parts: tuple[int, ...] = ()) -> None:
        model, number = self.description["model"], self.old.size + len(self.parts)
        if model["type"] == "Unigram":
            model["vocab"].append([token, min(score for _, score in model["vocab"])])
        else:
            model["vocab"][token] = number
        self.ids[token] = number
        self.parts.append(parts)

    def merge(self, left: str, right: str) -> None:
        self.description["model"]["merges"].append([left, right])
        if left + right not in self.ids:
            self.add(left + right, (self.ids[left], self.ids[right]))

    def like(self, token: str) -> tuple[int, ...]:
        """The ids of further special tokens that begin like one: the tags of other languages."""
        names = (*self.old.special_tokens[len(SPECIAL_TOKENS) :], *self.old.added_tokens)
        return tuple(self.ids[name] for name in names if name[:2] == token[:2])

    def fall_back(self) -> None:
        """Adds what byte fallback needs."""
        if self.old.config.falls_back:
            return
        for token in BYTES:
            if token not in self.ids:
                self.add(token)
        self.description["model"]["byte_fallback"] = True
        decoder, first = self.description["decoder"], {"type": "ByteFallback"}
        decoders = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
        self.description["decoder"] = {"type": "Sequence", "decoders": [first, *decoders]}

    def tokenizer(self, added: tuple[str, ...]) -> Tokenizer:
        old = self.old
        changes: dict[str, Any] = {
            "byte_fallback": KINDS[old.config.kind].byte_fallback,
            "normalize": old.config.normalizes,
            "vocabulary": old.size + len(self.parts),
        }
        inner, config = self.library(), old.config.model_copy(update=changes)
        return Tokenizer(inner, config, old.special_tokens, added_tokens=(*old.added_tokens, *added))

    def library(self) -> tokenizers.Tokenizer:
        return serialization.library_tokenizer(self.description, "tokenizer")


def _words(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """The words of texts as the tokenizer splits them, with their counts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.split_words(without_surrogates(text)))
    return counts


def _spelled(grown: _Growing, words: Counter[str], letters: set[str]) -> dict[tuple[str, ...], int]:
    """The tokens of each word that contains a new letter, with its count."""
    model = grown.library().model
    new = ((word, count) for word, count in words.items() if not letters.isdisjoint(word))
    return {tuple(token.value for token in model.tokenize(word)): count for word, count in new}


def _letters(words: Counter[str], known: Collection[str]) -> list[str]:
    """The frequent letters of words that are no tokens yet, the most frequent first."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            counts[letter] += count
    return [one for one in covering(counts) if one not in known and counts[one] >= MIN_FREQUENCY]


class _Merging:
    """Merges of frequent pairs (Sennrich et al. 2016) of which at least one contains a new letter."""

    def __init__(self, words: dict[tuple[str, ...], int], letters: Sequence[str]):
        self._words, self._counts, self._new = list(words), list(words.values()), set(letters)
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._where: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._changed: set[tuple[str, str]] = set()
        self._queue: list[tuple[int, tuple[str, str]]] = []
        for index in range(len(self._words)):
            self._count(index, 1)

    def merges(self, most: int) -> Iterator[tuple[str, str]]:
        """The merges, the most frequent first, until they have made so many new tokens."""
        while most > 0 and (best := self._best()):
            yield best
            token, affected = best[0] + best[1], self._where.pop(best)
            most -= token not in self._new
            for index in affected:
                self._count(index, -1)
            self._new.add(token)
            for index in affected:
                self._words[index] = _merged(self._words[index], best)
                self._count(index, 1)

    def _best(self) -> tuple[str, str] | None:
        for pair in self._changed:
            if self._pairs[pair] >= MIN_FREQUENCY:
                heappush(self._queue, (-self._pairs[pair], pair))
        self._changed.clear()
        # Entries whose count has changed since are out of date.
        while self._queue and -self._queue[0][0] != self._pairs[self._queue[0][1]]:
            heappop(self._queue)
        return self._queue[0][1] if self._queue else None

    def _count(self, index: int, times: int) -> None:
        for pair in pairwise(self._words[index]):
            if not self._new.isdisjoint(pair) and BYTE_TOKENS.isdisjoint(pair):
                self._pairs[pair] += times * self._counts[index]
                self._where[pair].add(index)
                self._changed.add(pair)


def _merged(pieces: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for piece in pieces:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)

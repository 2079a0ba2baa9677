"""Texts as bags: their words as numbers, n-grams of these, and how often each occurs in a text."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.data.store import TokenSequences
from clearhead.errors import ModelError
from clearhead.files import write_text
from clearhead.text.processor import distinct_texts, read_json

Numbers = NDArray[np.int64]
# A word, or a single punctuation mark.
TOKEN = re.compile(r"\w+|[^\w\s]")
UNKNOWN = 0


class BagVocabulary:
    """The words of a bag, numbered from 1, and its labels; 0 stands for an unknown word."""

    FILE = "vocabulary.json"
    multi_label = False
    """Each text has one label."""

    def __init__(self, words: Sequence[str], ngrams: int, labels: tuple[str, ...], lowercase: bool):
        self.words, self.ngrams, self.labels, self.lowercase = tuple(words), ngrams, labels, lowercase
        self._numbers = {word: number for number, word in enumerate(self.words, start=1)}

    @property
    def size(self) -> int:
        """The number of n-grams, each of which has a weight."""
        return self.ngrams

    @property
    def base(self) -> int:
        """An n-gram is a number in this base, whose digits are the numbers of its words."""
        return len(self.words) + 1

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self._json().encode()).hexdigest()

    def encode(self, texts: Iterable[str]) -> TokenSequences:
        """The numbers of the words of each text."""
        known, lowercase = self._numbers.get, self.lowercase
        return _sequences([known(word, UNKNOWN) for word in words_of(text, lowercase)] for text in texts)

    def text(self, ngram: int) -> str:
        """The words of an n-gram."""
        words: list[str] = []
        while ngram:
            ngram, number = divmod(ngram, self.base)
            words.append(self.words[number - 1])
        return " ".join(reversed(words))

    def save(self, path: Path) -> None:
        write_text(path, self._json())

    @classmethod
    def load(cls, path: Path) -> "BagVocabulary":
        found = read_json(path, {"words": list, "ngrams": int, "labels": list, "lowercase": bool})
        if found["ngrams"] < 0:
            raise ModelError(f"{path}: 'ngrams' is below 0; copy the file again")
        words, labels = (distinct_texts(found, name, path) for name in ("words", "labels"))
        return cls(words, found["ngrams"], labels, found["lowercase"])

    def _json(self) -> str:
        names = ("labels", "lowercase", "ngrams", "words")
        return json.dumps({name: getattr(self, name) for name in names}, ensure_ascii=False)


@dataclass(frozen=True, eq=False)
class Bags:
    """The n-grams of texts and their counts: those of text i are columns[offsets[i] : offsets[i + 1]]."""

    columns: Numbers
    counts: NDArray[np.float32]
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self) -> Numbers:
        """The text of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


def words_of(text: str, lowercase: bool) -> list[str]:
    """The words and punctuation marks of a text."""
    return TOKEN.findall(text.lower() if lowercase else text)


def ngrams_of(words: TokenSequences, base: int, max_ngram: int) -> tuple[Numbers, Numbers]:
    """The n-grams of texts as numbers, and the text of each; those with an unknown word are left out."""
    ids = words.ids.astype(np.int64)
    texts = np.repeat(np.arange(len(words)), words.lengths)
    found, documents = [], []
    for length in range(1, max_ngram + 1):
        starts = max(0, len(ids) - length + 1)
        complete = texts[:starts] == texts[len(ids) - starts :]
        number = np.zeros(starts, dtype=np.int64)
        for offset in range(length):
            word = ids[offset : offset + starts]
            number = number * base + word
            complete &= word != UNKNOWN
        found.append(number[complete])
        documents.append(texts[:starts][complete])
    return np.concatenate(found), np.concatenate(documents)


def number_words(
    texts: Sequence[str], lowercase: bool, min_documents: int
) -> tuple[TokenSequences, list[str]]:
    """The words of texts as numbers, and the words; those in too few texts have the number 0."""
    numbers: dict[str, int] = {}
    sequences = _sequences(
        [numbers.setdefault(word, len(numbers)) for word in words_of(text, lowercase)] for text in texts
    )
    words = list(numbers)
    rows = np.repeat(np.arange(len(texts)), sequences.lengths)
    bags = bags_of(rows, sequences.ids.astype(np.int64), len(texts), len(words))
    frequent = np.bincount(bags.columns, minlength=len(words)) >= min_documents
    renumbered = np.where(frequent, np.cumsum(frequent), UNKNOWN)
    kept = [word for word, keep in zip(words, frequent.tolist(), strict=True) if keep]
    return TokenSequences(renumbered[sequences.ids].astype(np.uint32), sequences.offsets), kept


def _sequences(texts: Iterable[Sequence[int]]) -> TokenSequences:
    """The numbers of each text in one array, without a list of all of them."""
    parts = [np.array(numbers, dtype=np.uint32) for numbers in texts]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    offsets[1:] = np.cumsum([len(part) for part in parts])
    return TokenSequences(np.concatenate([np.empty(0, dtype=np.uint32), *parts]), offsets)


def bags_of(documents: Numbers, columns: Numbers, texts: int, width: int) -> Bags:
    """Entries of texts and columns, in any order and repeated, as bags."""
    cells = np.sort(documents * width + columns)
    first = _first_of_runs(cells)
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=len(cells)).astype(np.float32)
    rows, columns = np.divmod(cells[starts], max(1, width))
    return Bags(columns, counts, np.searchsorted(rows, np.arange(texts + 1)))


def distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct numbers in order, and where each number is among them; np.unique takes twice as long."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = _first_of_runs(ordered)
    inverse = np.empty(len(numbers), dtype=np.int64)
    inverse[order] = np.cumsum(first) - 1
    return ordered[first], inverse


def _first_of_runs(ordered: Numbers) -> NDArray[np.bool_]:
    """Where an ordered array has another number than before."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first

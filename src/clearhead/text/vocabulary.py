"""A vocabulary of whole words with their counts, most frequent first, and how text is split into them."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from clearhead.errors import ModelError, TextError, closest_match, did_you_mean
from clearhead.files import write_text
from clearhead.text.processor import distinct_texts, read_json

WORD = re.compile(r"(?<![<\d])(?<!</)(?<![^\W\d_])[^\W\d_]+(?:['’][^\W\d_]+)*")
"""Letters in any script, with apostrophes between them; not the name of an HTML tag, nor the th of 5th."""


def split_words(text: str, lower: bool) -> list[str]:
    """The words of a text."""
    return WORD.findall(text.lower() if lower else text)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words and how often each occurred in training; the processor of word vectors."""

    FILE = "vocabulary.json"

    words: Sequence[str]
    counts: Sequence[int] = field(default=(), repr=False)
    """Empty where they are not known, as in files of other libraries."""
    lower: bool = True
    """Whether text is lower-cased before it is split."""

    @property
    def size(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def __contains__(self, word: str) -> bool:
        return self.find(word) is not None

    def find(self, word: str) -> int | None:
        """The id of a word as it is written, or else in lower case."""
        found = self.index.get(word)
        return self.index.get(word.lower()) if found is None else found

    def id(self, word: str) -> int:
        """The id of a word; raises TextError, with the closest spelling, if it is not in the vocabulary."""
        found = self.find(word)
        if found is None:
            match = closest_match(word.lower() if self.lower else word, self.words)
            known = f"not among the {self.size:,} words that have vectors"
            raise TextError(f"{word}: {known}{did_you_mean(match) or '; try another word'}")
        return found

    def encode(self, text: str) -> list[int]:
        """The ids of the words of a text that are in the vocabulary."""
        return [one for word in split_words(text, lower=False) if (one := self.find(word)) is not None]

    def save(self, path: Path) -> None:
        values = {"lower": self.lower, "words": list(self.words), "counts": list(self.counts)}
        write_text(path, json.dumps(values, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Self:
        found = read_json(path, {"words": list, "counts": list, "lower": bool})
        words, counts = distinct_texts(found, "words", path), found["counts"]
        if len(counts) not in (0, len(words)):
            raise ModelError(f"{path}: 'counts' do not fit the words; copy the file again")
        return cls(list(words), counts, found["lower"])

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies with the same words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

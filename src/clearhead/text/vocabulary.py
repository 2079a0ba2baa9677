"""A vocabulary of whole words with their counts, most frequent first, and how text is split into them."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from clearhead.errors import ModelError, TextError, closest_match, did_you_mean
from clearhead.files import write_text

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
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(*_checked(**values))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, TypeError) as error:
            raise ModelError(f"{path}: not a vocabulary ({error}); copy the file again") from None

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies with the same words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()


def duplicates(words: Iterable[str]) -> Iterator[str]:
    """The words that occurred before."""
    seen: set[str] = set()
    for word in words:
        if word in seen:
            yield word
        seen.add(word)


def _checked(words: Any, counts: Any, lower: Any) -> tuple[list[str], list[int], bool]:
    """The values of a saved vocabulary; raises ValueError if they are none."""
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("words is not a list of strings")
    if (word := next(duplicates(words), None)) is not None:
        raise ValueError(f"{word!r} occurs twice")
    if not isinstance(counts, list) or len(counts) not in (0, len(words)):
        raise ValueError("counts does not fit the words")
    return words, counts, bool(lower)

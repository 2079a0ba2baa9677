"""Statistics of all documents, and their split into training and validation text."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.sources.plain_text import BLANK, TextChunk
from clearhead.errors import DataError

# With fewer documents, the end of each one is held out: whole ones would be too much or too little.
FEW_DOCUMENTS = 10


@dataclass(frozen=True, eq=False)
class Survey:
    """The size and alphabet of a text, and the length and hash of each document."""

    characters: int
    bytes: int
    alphabet: frozenset[str]
    lengths: NDArray[np.int64]
    """The characters of each document."""
    hashes: NDArray[np.uint64]
    """One per document; equal documents stay in the same part."""
    blank: int = 0
    """The number of blank documents, which are not counted elsewhere."""

    @classmethod
    def of(cls, chunks: Iterable[TextChunk], seed: int = 0) -> "Survey":
        lengths, hashes = array("q"), array("Q")
        alphabet: set[str] = set()
        size, position, blank = 0, 0, 0
        salt = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
        digest = hashlib.blake2b(digest_size=8, salt=salt)
        for chunk in chunks:
            if chunk == BLANK:
                blank += 1
                continue
            text, last = chunk
            encoded = text.encode()
            digest.update(encoded)
            alphabet.update(text)
            size, position = size + len(encoded), position + len(text)
            if last:
                lengths.append(position)
                hashes.append(int.from_bytes(digest.digest(), "little"))
                position, digest = 0, hashlib.blake2b(digest_size=8, salt=salt)
        counts, keys = np.array(lengths, dtype=np.int64), np.array(hashes, dtype=np.uint64)
        return cls(int(counts.sum()), size, frozenset(alphabet), counts, keys, blank)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def copies(self) -> int:
        """The number of documents that equal an earlier one."""
        return len(self) - len(np.unique(self.hashes))


@dataclass(frozen=True, eq=False)
class TextSplit:
    """The number of characters of each document to train on; the rest is for validation."""

    cuts: NDArray[np.int64]

    def part(self, chunks: Iterable[TextChunk], part: Literal["train", "validation"]) -> Iterator[TextChunk]:
        """The chunks of all documents that belong to a part."""
        number, position = 0, 0
        for text, last in chunks:
            cut = int(self.cuts[number]) - position
            if part == "train" and cut > 0:
                yield TextChunk(text[:cut], last=cut <= len(text))
            if part == "validation" and cut < len(text):
                yield TextChunk(text[max(0, cut) :], last)
            number, position = (number + 1, 0) if last else (number, position + len(text))


def split_text(survey: Survey, share: float, most: int) -> TextSplit:
    """Holds out a share of the characters for validation, but at most `most`.

    Whole documents are held out, those with the lowest hashes. If there are few documents, or too few short
    ones, the end of each is held out instead. Equal documents stay together: the share is that of distinct
    documents, the least frequent first, and with all copies it never exceeds the share of the whole text.
    """
    lengths = survey.lengths
    wanted = _wanted(survey.characters, share, most)
    if not wanted:
        return TextSplit(lengths)
    hashes, first, indices, copies = np.unique(
        survey.hashes, return_index=True, return_inverse=True, return_counts=True
    )
    distinct = lengths[first]
    wanted_distinct = _wanted(int(distinct.sum()), share, most)
    short = np.flatnonzero((distinct <= wanted_distinct) & (distinct * copies <= wanted))
    if len(hashes) < FEW_DOCUMENTS or int(distinct[short].sum()) <= wanted_distinct:
        return _without_ends(survey, wanted)
    order = short[np.lexsort((hashes[short], copies[short]))]
    count = min(
        np.searchsorted(np.cumsum(distinct[order]), wanted_distinct, side="right"),
        np.searchsorted(np.cumsum((distinct * copies)[order]), wanted, side="right"),
    )
    held_out = np.isin(np.arange(len(hashes)), order[:count])
    return TextSplit(np.where(held_out[indices], 0, lengths))


def _wanted(characters: int, share: float, most: int) -> int:
    """The number of characters to hold out."""
    return min(most, characters - int(characters * (1 - share)))


def _without_ends(survey: Survey, wanted: int) -> TextSplit:
    """Holds out the end of each document, `wanted` characters in total."""
    lengths = survey.lengths
    ends = wanted if len(survey) == 1 else (lengths * (wanted / survey.characters)).astype(np.int64)
    if survey.characters - int(np.sum(ends)) < 1 or int(np.sum(ends)) < 1:
        raise DataError(
            f"{survey.characters} characters are too few to hold some out for validation; give more text, or "
            "validation files (data.validation)"
        )
    return TextSplit(lengths - ends)

"""A look over all documents before anything is made of them, and what of them is kept from training."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.sources.documents import BLANK, Piece
from clearhead.errors import DataError

# With fewer documents, the end of each is kept for validation: whole ones would be too much or too little.
FEW = 10


@dataclass(frozen=True, eq=False)
class Survey:
    """How much text there is, and by what its documents are told apart."""

    characters: int
    bytes: int
    alphabet: frozenset[str]
    lengths: NDArray[np.int64]
    """In characters, of each document."""
    hashes: NDArray[np.uint64]
    """Of each document: where two are the same, they stay together."""
    blank: int = 0
    """How many more documents there are in which nothing is written."""

    @classmethod
    def of(cls, pieces: Iterable[Piece], seed: int = 0) -> "Survey":
        lengths, hashes = array("q"), array("Q")
        alphabet: set[str] = set()
        size, place, blank, salt = 0, 0, 0, hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
        digest = hashlib.blake2b(digest_size=8, salt=salt)
        for piece in pieces:
            if piece == BLANK:
                blank += 1
                continue
            text, last = piece
            written = text.encode()
            digest.update(written)
            alphabet.update(text)
            size += len(written)
            place += len(text)
            if last:
                lengths.append(place)
                hashes.append(int.from_bytes(digest.digest(), "little"))
                place, digest = 0, hashlib.blake2b(digest_size=8, salt=salt)
        counted = np.array(lengths, dtype=np.int64)
        told = np.array(hashes, dtype=np.uint64)
        return cls(int(counted.sum()), size, frozenset(alphabet), counted, told, blank)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def copies(self) -> int:
        """How many documents are the same as one before them."""
        return len(self) - len(np.unique(self.hashes))


@dataclass(frozen=True, eq=False)
class TextSplit:
    """How many characters of each document are trained on; what follows them is for validation."""

    cuts: NDArray[np.int64]

    def part(self, pieces: Iterable[Piece], part: Literal["train", "validation"]) -> Iterator[Piece]:
        """The pieces of all documents as far as they belong to a part."""
        number, place = 0, 0
        for text, last in pieces:
            cut = int(self.cuts[number]) - place
            if part == "train" and cut > 0:
                yield Piece(text[:cut], last=cut <= len(text))
            if part == "validation" and cut < len(text):
                yield Piece(text[max(0, cut) :], last)
            number, place = (number + 1, 0) if last else (number, place + len(text))


def split_text(survey: Survey, share: float, most: int) -> TextSplit:
    """Keeps a share of the characters for validation, at most so many.

    They are whole documents, those with the lowest hashes. Of a few documents, or where those that are short
    enough do not suffice, the last part of each is kept. Documents that are the same stay together: it is the
    share of the different ones, the rarest first, and with their copies never more than the share of all.
    """
    lengths = survey.lengths
    wanted = _wanted(survey.characters, share, most)
    if not wanted:
        return TextSplit(lengths)
    hashes, first, places, copies = np.unique(
        survey.hashes, return_index=True, return_inverse=True, return_counts=True
    )
    once = lengths[first]
    wanted_once = _wanted(int(once.sum()), share, most)
    short = np.flatnonzero((once <= wanted_once) & (once * copies <= wanted))
    if len(hashes) < FEW or int(once[short].sum()) <= wanted_once:
        return _without_ends(survey, wanted)
    order = short[np.lexsort((hashes[short], copies[short]))]
    count = min(
        np.searchsorted(np.cumsum(once[order]), wanted_once, side="right"),
        np.searchsorted(np.cumsum((once * copies)[order]), wanted, side="right"),
    )
    held = np.isin(np.arange(len(hashes)), order[:count])
    return TextSplit(np.where(held[places], 0, lengths))


def _wanted(characters: int, share: float, most: int) -> int:
    """How many of so many characters are for validation."""
    return min(most, characters - int(characters * (1 - share)))


def _without_ends(survey: Survey, wanted: int) -> TextSplit:
    """Keeps the last part of each document, so many characters of all together."""
    lengths = survey.lengths
    kept = wanted if len(survey) == 1 else (lengths * (wanted / survey.characters)).astype(np.int64)
    if survey.characters - int(np.sum(kept)) < 1 or int(np.sum(kept)) < 1:
        raise DataError(
            f"{survey.characters} characters are too few to keep some for validation; give more text, or "
            "files for it (data.validation)"
        )
    return TextSplit(lengths - kept)

"""A look over all documents before anything is made of them, and what of them is kept from training."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.documents import Piece
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

    @classmethod
    def of(cls, pieces: Iterable[Piece], seed: int = 0) -> "Survey":
        lengths, hashes = array("q"), array("Q")
        alphabet: set[str] = set()
        size, place, salt = 0, 0, hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
        digest = hashlib.blake2b(digest_size=8, salt=salt)
        for text, last in pieces:
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
        return cls(int(counted.sum()), size, frozenset(alphabet), counted, np.array(hashes, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.lengths)


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
    enough do not suffice, the last part of each is kept.
    """
    lengths = survey.lengths
    wanted = min(most, survey.characters - int(survey.characters * (1 - share)))
    if not wanted:
        return TextSplit(lengths)
    short = lengths <= wanted
    if len(survey) < FEW or int(lengths[short].sum()) <= wanted:
        kept = wanted if len(survey) == 1 else (lengths * (wanted / survey.characters)).astype(np.int64)
        if survey.characters - int(np.sum(kept)) < 1 or int(np.sum(kept)) < 1:
            raise DataError(
                f"{survey.characters} characters are too few to keep some for validation; give more text, or "
                "files for it (data.validation)"
            )
        return TextSplit(lengths - kept)
    hashes = np.sort(survey.hashes[short])
    order = np.argsort(survey.hashes[short], kind="stable")
    count = int(np.searchsorted(np.cumsum(lengths[short][order]), wanted, side="right"))
    held = short & (survey.hashes <= hashes[count - 1])
    if held.all():
        held[np.argmax(survey.hashes)] = False
    return TextSplit(np.where(held, 0, lengths))

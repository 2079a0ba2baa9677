"""Token ids of a corpus, memory-mapped, so that it may be larger than memory."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import DataError

FORMAT = 1
META = "meta.json"
Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """Sequences of token ids in one array: sequence i is ids[offsets[i] : offsets[i + 1]]."""

    ids: Ids
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "TokenSequences":
        offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
        offsets[1:] = np.cumsum([len(sequence) for sequence in sequences])
        tokens = (token for sequence in sequences for token in sequence)
        return cls(np.fromiter(tokens, np.uint32, int(offsets[-1])), offsets)

    @classmethod
    def of_rows(cls, ids: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> "TokenSequences":
        """The first `lengths[i]` ids of each row."""
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(ids[np.arange(ids.shape[1]) < lengths[:, None]].astype(np.uint32), offsets)

    @classmethod
    def joined(cls, parts: Sequence["TokenSequences"]) -> "TokenSequences":
        """The sequences of all parts, in order."""
        ends = np.cumsum([len(part.ids) for part in parts])
        starts = [part.offsets[:-1] + end - len(part.ids) for part, end in zip(parts, ends, strict=True)]
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate([*starts, ends[-1:]]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        # Casting before subtracting avoids a second array of the size of the offsets.
        return np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting="unsafe")

    def gather(self, rows: NDArray[np.int64]) -> "TokenSequences":
        """Some of the sequences, copied into memory."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(self.lengths[rows], out=offsets[1:])
        indices = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], self.lengths[rows])
        return TokenSequences(self.ids[indices], offsets)

    def rows(self) -> NDArray[np.int32]:
        """One sequence per row; the cells after its end are arbitrary."""
        columns = np.arange(int(self.lengths.max(initial=0)))
        last = self.lengths[:, None] - 1
        return self.ids[self.offsets[:-1, None] + np.minimum(columns, last)].astype(np.int32)


class PairStore:
    """Pairs of token sequences: `store[i]` is (source ids, target ids), without special tokens."""

    def __init__(self, source: TokenSequences, target: TokenSequences, meta: dict[str, Any] | None = None):
        if len(source) != len(target):
            raise DataError(f"a store needs one target per source, got {len(source)} and {len(target)}")
        self.source, self.target, self.meta = source, target, meta or {}

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PairStore":
        """A store in memory."""
        return cls(TokenSequences.of(sources), TokenSequences.of(targets))

    @classmethod
    def open(cls, folder: Path) -> "PairStore":
        """The store in a folder; raises DataError if it is missing or incomplete."""
        (source, target), meta = _open(folder, ("source", "target"), count="pairs")
        return cls(source, target, meta)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Ids, Ids]:
        return self.source[index], self.target[index]

    def gather(self, epoch: int, rows: NDArray[np.int64]) -> tuple[TokenSequences, TokenSequences]:
        """Some of the pairs, the same in every epoch."""
        return self.source.gather(rows), self.target.gather(rows)

    @property
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The lengths of all sources and of all targets."""
        return self.source.lengths, self.target.lengths


class TextStore:
    """Documents of token ids, without special tokens."""

    def __init__(self, documents: TokenSequences, meta: dict[str, Any] | None = None):
        self.documents, self.meta = documents, meta or {}

    @classmethod
    def of(cls, documents: Sequence[Sequence[int]]) -> "TextStore":
        """A store in memory."""
        return cls(TokenSequences.of(documents))

    @classmethod
    def open(cls, folder: Path) -> "TextStore":
        """The store in a folder; raises DataError if it is missing or incomplete."""
        [documents], meta = _open(folder, ("documents",), count="count")
        return cls(documents, meta)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> Ids:
        return self.documents[index]

    @property
    def tokens(self) -> int:
        return len(self.documents.ids)


def _open(folder: Path, names: Sequence[str], count: str) -> tuple[list[TokenSequences], dict[str, Any]]:
    """The sequences of a store, and its metadata, which holds their number under `count`."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise DataError(f"{folder}: token store of format {meta['format']}, not {FORMAT}; build it again")
        return [_map(folder, name, meta[count], meta) for name in names], meta
    except FileNotFoundError as error:
        raise DataError(f"{folder}: no token store (no {Path(error.filename).name})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: the token store is damaged ({error}); build it again") from None


def _map(folder: Path, name: str, count: int, meta: dict[str, Any]) -> TokenSequences:
    tokens, kind = meta[name]["tokens"], np.dtype(meta[name]["type"])
    for file, size in ((f"{name}.ids", tokens * kind.itemsize), (f"{name}.offsets", (count + 1) * 8)):
        found = (folder / file).stat().st_size
        if found != size:
            raise ValueError(f"{file} has {found} bytes, not {size}")
    # As plain arrays: slicing a memmap object costs several times as much.
    offsets = np.asarray(np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r"))
    ids = np.asarray(np.memmap(folder / f"{name}.ids", dtype=kind, mode="r"))
    if offsets[0] != 0 or offsets[-1] != tokens or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError(f"{name}.offsets are not in order")
    return TokenSequences(ids, offsets)

"""Token ids of a corpus, read from disk as needed: a corpus larger than memory can be trained on."""

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
Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Side:
    """The sentences of one language end to end; sentence i is ids[offsets[i] : offsets[i + 1]]."""

    ids: Ids
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Side":
        """SameSegment held in memory."""
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        offsets[1:] = np.cumsum([len(sentence) for sentence in sentences])
        ids = np.fromiter((word for sentence in sentences for word in sentence), np.uint32, int(offsets[-1]))
        return cls(ids, offsets)

    @classmethod
    def of_rows(cls, ids: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> "Side":
        """SameSegment that each begin a row."""
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(ids[np.arange(ids.shape[1]) < lengths[:, None]].astype(np.uint32), offsets)

    @classmethod
    def joined(cls, sides: Sequence["Side"]) -> "Side":
        """The sentences of several sides, one after the other."""
        ends = np.cumsum([len(side.ids) for side in sides])
        starts = [side.offsets[:-1] + end - len(side.ids) for side, end in zip(sides, ends, strict=True)]
        return cls(np.concatenate([side.ids for side in sides]), np.concatenate([*starts, ends[-1:]]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        # Cast before subtracting: no second array of the size of the offsets is needed.
        return np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting="unsafe")

    def gather(self, rows: NDArray[np.int64]) -> "Side":
        """Some of the sentences, copied into memory."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(self.lengths[rows], out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], self.lengths[rows])
        return Side(self.ids[places], offsets)

    def rows(self) -> NDArray[np.int32]:
        """Each sentence in a row of its own; behind a shorter one lies anything."""
        columns = np.arange(int(self.lengths.max(initial=0)))
        last = self.lengths[:, None] - 1
        return self.ids[self.offsets[:-1, None] + np.minimum(columns, last)].astype(np.int32)


class PairStore:
    """Pairs of id sequences by number; `store[i]` is (source ids, target ids), without start and end."""

    def __init__(self, source: Side, target: Side, meta: dict[str, Any] | None = None):
        if len(source) != len(target):
            raise DataError(f"a store needs as many targets as sources, not {len(target)} and {len(source)}")
        self.source, self.target, self.meta = source, target, meta or {}

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "PairStore":
        """A store held in memory."""
        return cls(Side.of(sources), Side.of(targets))

    @classmethod
    def open(cls, folder: Path) -> "PairStore":
        """The store in a folder; raises DataError if it is not whole."""
        (source, target), meta = _open(folder, ("source", "target"), count="pairs")
        return cls(source, target, meta)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Ids, Ids]:
        return self.source[index], self.target[index]

    def gather(self, epoch: int, rows: NDArray[np.int64]) -> tuple[Side, Side]:
        """Some of the pairs, the same in every epoch."""
        return self.source.gather(rows), self.target.gather(rows)

    @property
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Lengths of all sources and of all targets."""
        return self.source.lengths, self.target.lengths


class TextStore:
    """Documents of ids by number, without start and end."""

    def __init__(self, documents: Side, meta: dict[str, Any] | None = None):
        self.documents, self.meta = documents, meta or {}

    @classmethod
    def of(cls, documents: Sequence[Sequence[int]]) -> "TextStore":
        """A store held in memory."""
        return cls(Side.of(documents))

    @classmethod
    def open(cls, folder: Path) -> "TextStore":
        """The store in a folder; raises DataError if it is not whole."""
        [documents], meta = _open(folder, ("documents",), count="count")
        return cls(documents, meta)

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> Ids:
        return self.documents[index]

    @property
    def tokens(self) -> int:
        return len(self.documents.ids)


def _open(folder: Path, sides: Sequence[str], count: str) -> tuple[list[Side], dict[str, Any]]:
    """The sides of a store and what is written about it, under `count` how many rows they have."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise DataError(
                f"{folder}: a token store of format {meta['format']}, not {FORMAT}; build it anew"
            )
        return [_map(folder, side, meta[count], meta) for side in sides], meta
    except FileNotFoundError as error:
        raise DataError(f"{folder}: no token store there (no {Path(error.filename).name})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: the token store is damaged ({error}); build it anew") from None


def _map(folder: Path, side: str, rows: int, meta: dict[str, Any]) -> Side:
    tokens, kind = meta[side]["tokens"], np.dtype(meta[side]["type"])
    for name, size in ((f"{side}.ids", tokens * kind.itemsize), (f"{side}.offsets", (rows + 1) * 8)):
        found = (folder / name).stat().st_size
        if found != size:
            raise ValueError(f"{name} has {found} bytes where {size} were written")
    # As plain arrays: slicing a memmap object costs several times as much.
    offsets = np.asarray(np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r"))
    mapped = Side(np.asarray(np.memmap(folder / f"{side}.ids", dtype=kind, mode="r")), offsets)
    if offsets[0] != 0 or offsets[-1] != tokens or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError(f"{side}.offsets are not in order")
    return mapped

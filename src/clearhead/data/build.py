"""Token stores are built here: tokenised in parallel, written whole or not at all, kept by what they hold."""

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.cleaning import Tally
from clearhead.data.pair import Directed
from clearhead.data.sources.documents import Piece
from clearhead.data.store import FORMAT, PairStore, TextStore
from clearhead.errors import DataError
from clearhead.files import fsync
from clearhead.text.tokenizer import Tokenizer

CHUNK = 4096
# Characters of running text that are tokenised at once.
TEXT_CHUNK = 1 << 22
AHEAD = 2
# What stands before a source, its ids, and those of its target.
Row = tuple[tuple[int, ...], list[int], list[int]]
Store = TypeVar("Store")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def cached_store(
    cache: Path,
    content: Mapping[str, Any],
    pairs: Callable[[Tally], Iterable[Directed]],
    tokenizer: Tokenizer,
    max_length: int,
) -> PairStore:
    """The store of these pairs, built unless it is in the cache already.

    `content` tells the pairs apart from all others: hashes of files, languages, cleaning, part. `pairs` is
    called only to build; the tally it is given, and fills, is kept in the store. Processes that want the
    same store at the same time wait for the first of them.
    """

    def write(folder: Path) -> dict[str, Any]:
        tally = Tally()
        meta = _write_pairs(folder, pairs(tally), tokenizer, max_length)
        if not meta["pairs"]:
            beyond = f"then {meta['too_long']:,} without tokens or with more than {max_length}"
            raise DataError(f"no pairs are left to train on: {tally}; {beyond}")
        return meta | {"tally": {"kept": tally.kept, "dropped": dict(tally.dropped)}}

    described = {
        "content": content,
        "tokenizer": tokenizer.fingerprint,
        "max_length": max_length,
        "format": FORMAT,
    }
    return Building(cache, described, PairStore.open, write).store()


def cached_texts(
    cache: Path, content: Mapping[str, Any], pieces: Callable[[], Iterable[Piece]], tokenizer: Tokenizer
) -> TextStore:
    """The store of these documents, built unless it is in the cache already; what it holds is told in it."""
    described = {"content": content, "tokenizer": tokenizer.fingerprint, "format": FORMAT}

    def write(folder: Path) -> dict[str, Any]:
        return _write_texts(folder, pieces(), tokenizer)

    return Building(cache, described, TextStore.open, write).store()


@dataclass(frozen=True)
class Building(Generic[Store]):
    """A store that is opened where it is in the cache, and written there where it is not."""

    cache: Path
    described: dict[str, Any]
    open: Callable[[Path], Store]
    write: Callable[[Path], dict[str, Any]]
    """Writes the files of the store into a folder, and gives what is to be said about them."""

    def store(self) -> Store:
        key = hashlib.sha256(json.dumps(self.described, sort_keys=True, default=str).encode()).hexdigest()[
            :32
        ]
        folder = self.cache / key
        try:
            return self.open(folder)
        except DataError:
            pass
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            with _locked(self.cache / f"{key}.lock"):
                return self._open_or_build(folder)
        except OSError as error:
            raise DataError(
                f"{folder}: the token store cannot be written ({error.strerror or error}); "
                "make room or choose another cache folder"
            ) from None

    def _open_or_build(self, folder: Path) -> Store:
        try:
            return self.open(folder)
        except DataError:
            for left in [folder, *folder.parent.glob(f".{folder.name}.*")]:
                shutil.rmtree(left, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            meta = self.write(part) | self.described
            (part / "meta.json").write_text(json.dumps(meta, indent=1, default=str), encoding="utf-8")
            part.chmod(0o755)
            for written in [*part.iterdir(), part]:
                fsync(written)
            part.rename(folder)
            fsync(folder.parent)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return self.open(folder)


def _write_pairs(
    folder: Path, pairs: Iterable[Directed], tokenizer: Tokenizer, max_length: int
) -> dict[str, Any]:
    def encode(chunk: list[Directed]) -> list[Row]:
        texts = [one.pair.source for one in chunk] + [one.pair.target for one in chunk]
        ids = tokenizer.encode_batch(texts)
        tags = [() if one.tag is None else (one.tag,) for one in chunk]
        return list(zip(tags, ids[: len(chunk)], ids[len(chunk) :], strict=True))

    kind = _kind(tokenizer)
    too_long = 0
    stream = iter(pairs)
    chunks = iter(lambda: list(islice(stream, CHUNK)), [])
    with ExitStack() as stack:
        source, target = (SideWriter(folder, side, kind, stack) for side in ("source", "target"))
        for chunk in _worked(chunks, encode):
            rows = [
                ([*tag, *ours], theirs)
                for tag, ours, theirs in chunk
                if 0 < len(ours) <= max_length - len(tag) and 0 < len(theirs) <= max_length
            ]
            too_long += len(chunk) - len(rows)
            source.add([ours for ours, _ in rows])
            target.add([theirs for _, theirs in rows])
    sides = {side.name: {"tokens": side.tokens, "type": kind.name} for side in (source, target)}
    return {"pairs": source.count, "too_long": too_long, **sides}


def _write_texts(folder: Path, pieces: Iterable[Piece], tokenizer: Tokenizer) -> dict[str, Any]:
    def encode(chunk: list[Piece]) -> tuple[list[Piece], list[list[int]]]:
        return chunk, tokenizer.encode_batch([piece.text for piece in chunk])

    kind = _kind(tokenizer)
    characters = size = 0
    with ExitStack() as stack:
        documents = SideWriter(folder, "documents", kind, stack)
        for chunk, ids in _worked(_chunks_of_text(pieces), encode):
            documents.add_pieces(ids, [piece.last for piece in chunk])
            characters += sum(len(piece.text) for piece in chunk)
            size += sum(len(piece.text.encode()) for piece in chunk)
    if not documents.count:
        raise DataError("no documents are left; give more text")
    about = {"tokens": documents.tokens, "type": kind.name}
    return {"count": documents.count, "characters": characters, "bytes": size, "documents": about}


def _kind(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)


def _chunks_of_text(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """As many pieces together as can be tokenised at once."""
    chunk: list[Piece] = []
    room = TEXT_CHUNK
    for piece in pieces:
        chunk.append(piece)
        room -= len(piece.text)
        if room <= 0:
            yield chunk
            chunk, room = [], TEXT_CHUNK
    if chunk:
        yield chunk


def _worked(chunks: Iterator[Chunk], work: Callable[[Chunk], Result]) -> Iterator[Result]:
    """What becomes of each chunk, in order; one is read while threads work on those before."""
    with ThreadPoolExecutor(max_workers=AHEAD) as threads:
        waiting: deque[Future[Result]] = deque()
        for chunk in chunks:
            waiting.append(threads.submit(work, chunk))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any], stack: ExitStack):
        self.name, self.tokens, self.count = name, 0, 0
        self._end = 0
        self._kind = kind
        self._ids: BinaryIO = stack.enter_context((folder / f"{name}.ids").open("wb"))
        self._offsets: BinaryIO = stack.enter_context((folder / f"{name}.offsets").open("wb"))
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, sentences: list[list[int]]) -> None:
        self._close(self._write(sentences))

    def add_pieces(self, pieces: list[list[int]], last: Sequence[bool]) -> None:
        """SameSegment in pieces, of which `last` tells those that end one; without a word, it is left out."""
        ends = self._write(pieces)[np.array(last, dtype=bool)]
        self._close(ends[np.diff(ends, prepend=self._end) > 0])

    def _write(self, sequences: list[list[int]]) -> NDArray[np.int64]:
        """Where each of them ends."""
        ends = self.tokens + np.cumsum([len(words) for words in sequences], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(sequences), self._kind)
        self._ids.write(ids.tobytes())
        self.tokens += len(ids)
        return ends

    def _close(self, ends: NDArray[np.int64]) -> None:
        self._offsets.write(ends.tobytes())
        self.count += len(ends)
        self._end = int(ends[-1]) if len(ends) else self._end


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time, and let go by the system even if that process is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

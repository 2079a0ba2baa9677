"""Builds token stores: tokenized in parallel, written atomically, cached by content."""

import gc
import hashlib
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.cache import store_lock
from clearhead.data.cleaning import Tally
from clearhead.data.pair import TaggedPair
from clearhead.data.sources.plain_text import TextChunk
from clearhead.data.store import FORMAT, META, PairStore, TextStore
from clearhead.errors import DataError
from clearhead.files import fsync
from clearhead.text.tokenizer import Tokenizer

# Pairs, and characters of running text, that are tokenized at once.
PAIRS = 4096
CHARACTERS = 1 << 22
WORKERS = 2
# The tag before a source, the source's ids, and the target's ids.
Row = tuple[tuple[int, ...], list[int], list[int]]
# Writes the files of a store into a folder and returns its metadata.
Write = Callable[[Path], dict[str, Any]]
Store = TypeVar("Store")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def cached_store(
    cache: Path,
    content: Mapping[str, Any],
    pairs: Callable[[Tally], Iterable[TaggedPair]],
    tokenizer: Tokenizer,
    max_length: int,
) -> PairStore:
    """The store of these pairs, from the cache or newly built.

    `content` identifies the pairs: hashes of files, languages, cleaning, part. `pairs` is called only to
    build; the tally it fills is saved with the store. Of several processes, one builds and the others wait.
    """

    def write(folder: Path) -> dict[str, Any]:
        tally = Tally()
        meta = _write_pairs(folder, pairs(tally), tokenizer, max_length)
        if not meta["pairs"]:
            too_long = f"then {meta['too_long']:,} without tokens or with more than {max_length}"
            raise DataError(f"no pairs are left to train on: {tally}; {too_long}")
        return meta | {"tally": {"kept": tally.kept, "dropped": dict(tally.dropped)}}

    key = {"content": content, "tokenizer": tokenizer.fingerprint, "max_length": max_length, "format": FORMAT}
    return _cached(cache, key, PairStore.open, write)


def cached_texts(
    cache: Path, content: Mapping[str, Any], chunks: Callable[[], Iterable[TextChunk]], tokenizer: Tokenizer
) -> TextStore:
    """The store of these documents, from the cache or newly built; `content` identifies them."""
    key = {"content": content, "tokenizer": tokenizer.fingerprint, "format": FORMAT}
    return _cached(cache, key, TextStore.open, lambda folder: _write_texts(folder, chunks(), tokenizer))


def _cached(cache: Path, key: dict[str, Any], open_store: Callable[[Path], Store], write: Write) -> Store:
    """The store in the cache under everything it depends on; `write` creates its files and metadata."""
    content = json.dumps(key, sort_keys=True, default=str)
    folder = cache / hashlib.sha256(content.encode()).hexdigest()[:32]
    with suppress(DataError):
        return open_store(folder)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with store_lock(folder):
            with suppress(DataError):
                return open_store(folder)
            with _no_garbage_collection():
                _build(folder, key, write)
            return open_store(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: the token store cannot be written ({error.strerror or error}); "
            "make room or choose another cache folder"
        ) from None


def _build(folder: Path, key: dict[str, Any], write: Write) -> None:
    for left in [folder, *folder.parent.glob(f".{folder.name}.*")]:
        shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        meta = json.dumps(write(part) | key, indent=1, default=str)
        (part / META).write_text(meta, encoding="utf-8")
        part.chmod(0o755)
        for written in [*part.iterdir(), part]:
            fsync(written)
        part.rename(folder)
        fsync(folder.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turned off for the process: it would scan many pairs over and over, though they form no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write_pairs(
    folder: Path, pairs: Iterable[TaggedPair], tokenizer: Tokenizer, max_length: int
) -> dict[str, Any]:
    def encode(chunk: list[TaggedPair]) -> list[Row]:
        sources, targets = ([one.pair[side] for one in chunk] for side in (0, 1))
        if tokenizer.for_targets is tokenizer:
            ids = _encode_distinct(tokenizer, sources + targets)
            sources, targets = ids[: len(chunk)], ids[len(chunk) :]
        else:
            sources = _encode_distinct(tokenizer, sources)
            targets = _encode_distinct(tokenizer.for_targets, targets)
        tags = [() if one.tag is None else (one.tag,) for one in chunk]
        return list(zip(tags, sources, targets, strict=True))

    kind = _id_type(tokenizer)
    too_long = 0
    stream = iter(pairs)
    chunks = iter(lambda: list(islice(stream, PAIRS)), [])
    with ExitStack() as stack:
        source, target = (SequenceWriter(folder, side, kind, stack) for side in ("source", "target"))
        for chunk in _parallel(chunks, encode):
            rows = [
                ([*tag, *source_ids], target_ids)
                for tag, source_ids, target_ids in chunk
                if 0 < len(source_ids) <= max_length - len(tag) and 0 < len(target_ids) <= max_length
            ]
            too_long += len(chunk) - len(rows)
            source.add([source_ids for source_ids, _ in rows])
            target.add([target_ids for _, target_ids in rows])
    sides = {side.name: {"tokens": side.tokens, "type": kind.name} for side in (source, target)}
    return {"pairs": source.count, "too_long": too_long, **sides}


def _encode_distinct(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """The ids of texts; each distinct text is encoded once, because many occur in both directions."""
    distinct = list(dict.fromkeys(texts))
    ids = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
    return [ids[text] for text in texts]


def _write_texts(folder: Path, chunks: Iterable[TextChunk], tokenizer: Tokenizer) -> dict[str, Any]:
    def encode(group: list[TextChunk]) -> tuple[list[TextChunk], list[list[int]]]:
        return group, tokenizer.encode_batch([chunk.text for chunk in group])

    kind = _id_type(tokenizer)
    characters = size = 0
    with ExitStack() as stack:
        documents = SequenceWriter(folder, "documents", kind, stack)
        for group, ids in _parallel(_grouped(chunks), encode):
            documents.add_chunks(ids, [chunk.last for chunk in group])
            characters += sum(len(chunk.text) for chunk in group)
            size += sum(len(chunk.text.encode()) for chunk in group)
    if not documents.count:
        raise DataError("no documents are left; give more text")
    about = {"tokens": documents.tokens, "type": kind.name}
    return {"count": documents.count, "characters": characters, "bytes": size, "documents": about}


def _id_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)


def _grouped(chunks: Iterable[TextChunk]) -> Iterator[list[TextChunk]]:
    """Groups of chunks that are tokenized at once."""
    group: list[TextChunk] = []
    capacity = CHARACTERS
    for chunk in chunks:
        group.append(chunk)
        capacity -= len(chunk.text)
        if capacity <= 0:
            yield group
            group, capacity = [], CHARACTERS
    if group:
        yield group


def _parallel(chunks: Iterator[Chunk], work: Callable[[Chunk], Result]) -> Iterator[Result]:
    """The result for each chunk, in order; the next chunk is read while threads work on earlier ones."""
    with ThreadPoolExecutor(max_workers=WORKERS) as threads:
        pending: deque[Future[Result]] = deque()
        for chunk in chunks:
            pending.append(threads.submit(work, chunk))
            if len(pending) > WORKERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class SequenceWriter:
    """Appends token sequences to their two files."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any], stack: ExitStack):
        self.name, self.tokens, self.count = name, 0, 0
        self._end, self._kind = 0, kind
        self._ids: BinaryIO = stack.enter_context((folder / f"{name}.ids").open("wb"))
        self._offsets: BinaryIO = stack.enter_context((folder / f"{name}.offsets").open("wb"))
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, sequences: list[list[int]]) -> None:
        self._write_offsets(self._write_ids(sequences))

    def add_chunks(self, chunks: list[list[int]], last: Sequence[bool]) -> None:
        """Adds sequences in chunks; `last` marks those that end one. Empty sequences are left out."""
        ends = self._write_ids(chunks)[np.array(last, dtype=bool)]
        self._write_offsets(ends[np.diff(ends, prepend=self._end) > 0])

    def _write_ids(self, sequences: list[list[int]]) -> NDArray[np.int64]:
        """Returns the end of each sequence."""
        ends = self.tokens + np.cumsum([len(tokens) for tokens in sequences], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(sequences), self._kind)
        self._ids.write(ids.tobytes())
        self.tokens += len(ids)
        return ends

    def _write_offsets(self, ends: NDArray[np.int64]) -> None:
        self._offsets.write(ends.tobytes())
        self.count += len(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

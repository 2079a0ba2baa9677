"""Token stores are built here: tokenised in parallel, written whole or not at all, kept by what they hold."""

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clearhead.data.cleaning import Tally
from clearhead.data.pair import Directed
from clearhead.data.store import FORMAT, PairStore
from clearhead.errors import DataError
from clearhead.text.tokenizer import Tokenizer
from clearhead.writing import force

CHUNK = 4096
AHEAD = 2
# What stands before a source, its ids, and those of its target.
Row = tuple[tuple[int, ...], list[int], list[int]]


def cached_store(
    cache: Path,
    content: Mapping[str, Any],
    pairs: Callable[[Tally], Iterable[Directed]],
    tokenizer: Tokenizer,
    longest: int,
) -> PairStore:
    """The store of these pairs, built unless it is in the cache already.

    `content` tells the pairs apart from all others: hashes of files, languages, cleaning, part. `pairs` is
    called only to build; the tally it is given, and fills, is kept in the store. Processes that want the
    same store at the same time wait for the first of them.
    """
    described = {"content": content, "tokenizer": tokenizer.fingerprint, "longest": longest, "format": FORMAT}
    key = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:32]
    folder = cache / key
    try:
        return PairStore.open(folder)
    except DataError:
        pass
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{key}.lock"):
            return _open_or_build(folder, described, pairs, tokenizer, longest)
    except OSError as error:
        raise DataError(
            f"{folder}: the token store cannot be written ({error.strerror or error}); "
            "make room or choose another cache folder"
        ) from None


def _open_or_build(
    folder: Path,
    described: dict[str, Any],
    pairs: Callable[[Tally], Iterable[Directed]],
    tokenizer: Tokenizer,
    longest: int,
) -> PairStore:
    try:
        return PairStore.open(folder)
    except DataError:
        for left in [folder, *folder.parent.glob(f".{folder.name}.*")]:
            shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        tally = Tally()
        meta = _write(part, pairs(tally), tokenizer, longest)
        if not meta["pairs"]:
            beyond = f"then {meta['too_long']:,} without tokens or with more than {longest}"
            raise DataError(f"no pairs are left to train on: {tally}; {beyond}")
        meta |= described | {"tally": {"kept": tally.kept, "dropped": dict(tally.dropped)}}
        (part / "meta.json").write_text(json.dumps(meta, indent=1, default=str), encoding="utf-8")
        part.chmod(0o755)
        for written in [*part.iterdir(), part]:
            force(written)
        part.rename(folder)
        force(folder.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return PairStore.open(folder)


def _write(folder: Path, pairs: Iterable[Directed], tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    kind = np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)
    count = too_long = 0
    with ExitStack() as stack:
        source, target = (SideWriter(folder, side, kind, stack) for side in ("source", "target"))
        for chunk in _encoded(pairs, tokenizer):
            rows = [
                ([*tag, *ours], theirs)
                for tag, ours, theirs in chunk
                if 0 < len(ours) <= longest - len(tag) and 0 < len(theirs) <= longest
            ]
            count, too_long = count + len(rows), too_long + len(chunk) - len(rows)
            source.add([ours for ours, _ in rows])
            target.add([theirs for _, theirs in rows])
    sides = {side.name: {"tokens": side.tokens, "type": kind.name} for side in (source, target)}
    return {"pairs": count, "too_long": too_long, **sides}


def _encoded(pairs: Iterable[Directed], tokenizer: Tokenizer) -> Iterator[list[Row]]:
    """Chunks of ids in the order of the pairs; one chunk is read while threads tokenise those before."""

    def encode(chunk: list[Directed]) -> list[Row]:
        texts = [one.pair.source for one in chunk] + [one.pair.target for one in chunk]
        ids = tokenizer.encode_batch(texts)
        tags = [() if one.tag is None else (one.tag,) for one in chunk]
        return list(zip(tags, ids[: len(chunk)], ids[len(chunk) :], strict=True))

    stream = iter(pairs)
    with ThreadPoolExecutor(max_workers=AHEAD) as threads:
        waiting: deque[Future[list[Row]]] = deque()
        while chunk := list(islice(stream, CHUNK)):
            waiting.append(threads.submit(encode, chunk))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any], stack: ExitStack):
        self.name, self.tokens = name, 0
        self._kind = kind
        self._ids: BinaryIO = stack.enter_context((folder / f"{name}.ids").open("wb"))
        self._offsets: BinaryIO = stack.enter_context((folder / f"{name}.offsets").open("wb"))
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, sentences: list[list[int]]) -> None:
        ends = self.tokens + np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        self._offsets.write(ends.tobytes())
        ids = np.fromiter((word for sentence in sentences for word in sentence), self._kind)
        self._ids.write(ids.tobytes())
        self.tokens += len(ids)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time, and let go by the system even if that process is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

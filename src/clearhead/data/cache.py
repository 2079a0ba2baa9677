"""The cache of token stores: where it is, what is in it, and clearing it."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from clearhead.data.store import META
from clearhead.wording import counted

# A store is named by the hash of what it depends on; until it is complete, by a dot, the hash and a suffix.
STORE = re.compile(r"\.?([0-9a-f]{32})(\.\w+)?")


@dataclass(frozen=True)
class CachedStore:
    """A token store in the cache; an incomplete one was left by a killed process or is being built."""

    path: Path
    size: int
    """Bytes of its files."""
    built: date
    content: str
    """What it holds, in words."""


def cache_folder() -> Path:
    """Where token stores are kept between runs: CLEARHEAD_CACHE, or the user's cache."""
    named = os.environ.get("CLEARHEAD_CACHE")
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(user) / "clearhead"


def cached_stores(cache: Path) -> list[CachedStore]:
    """The stores in a cache, the largest first; links and files of others are left out."""
    if not cache.is_dir():
        return []
    folders = (path for path in cache.iterdir() if STORE.fullmatch(path.name))
    stores = [_describe(path) for path in folders if path.is_dir() and not path.is_symlink()]
    return sorted(stores, key=lambda store: (-store.size, store.path))


def remove_store(store: CachedStore) -> bool:
    """Delete a store; False if a process is building it. A run that trains on it keeps its open files."""
    named = STORE.fullmatch(store.path.name)
    assert named, store.path
    with store_lock(store.path.with_name(named[1]), wait=False) as free:
        if free:
            shutil.rmtree(store.path)
    return free


@contextmanager
def store_lock(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Inside, no other process builds this store; without `wait`, yields False at once if one does."""
    # The lock file stays, because a process that waits for a deleted one would no longer exclude others.
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            # The system releases the lock even if the process is killed.
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def _describe(path: Path) -> CachedStore:
    size = sum(file.lstat().st_size for file in path.iterdir())
    content = "incomplete"
    with suppress(OSError, ValueError, KeyError):
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        content = counted(meta["pairs"], "pair") if "pairs" in meta else counted(meta["count"], "document")
    return CachedStore(path, size, date.fromtimestamp(path.stat().st_mtime), content)

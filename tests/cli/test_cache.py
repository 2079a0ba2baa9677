"""`clearhead cache` shows and clears token stores, and nothing else."""

import fcntl
import io
import json
from pathlib import Path

import pytest

from clearhead.data.cache import cached_stores
from clearhead.wording import counted

HASH = "0123456789abcdef" * 2


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLEARHEAD_CACHE", str(folder))
    return folder


@pytest.fixture
def filled(cache, call, number_recipe, tmp_path) -> Path:
    """The cache after a run."""
    assert call("train", number_recipe(tmp_path), "--out", tmp_path / "run").code == 0
    return cache


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_an_absent_cache_is_empty(call, cache):
    assert call("cache").out == f"{cache}: 0 token stores, 0.0 kB\n"
    assert call("cache", "--clear", "--yes").out == "deleted 0 token stores, 0.0 kB\n"
    assert not cache.exists()


def test_the_stores_of_a_run_are_listed_and_cleared(call, filled):
    first, *lines = call("cache").lines
    stores = cached_stores(filled)
    assert [store.path.name for store in sorted(stores, key=lambda store: store.path)] == entries(filled)
    assert first.startswith(f"{filled}: {counted(len(stores), 'token store')}, ")
    assert len(lines) == len(stores) > 0
    assert all(line.endswith(" pairs") for line in lines)
    records = [json.loads(line) for line in call("cache", "--json").lines]
    sizes = {str(path.parent): sum(f.stat().st_size for f in path.parent.iterdir()) for path in metas(filled)}
    assert {record["path"]: record["bytes"] for record in records} == sizes

    result = call("cache", "--clear", "--yes", "--json")
    assert json.loads(result.out) == {"deleted": len(stores), "bytes": sum(sizes.values())}
    assert entries(filled) == []


def metas(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/meta.json"))


def test_one_store_is_not_plural(call, cache):
    (cache / HASH).mkdir(parents=True)
    (cache / HASH / "meta.json").write_text('{"pairs": 1}')
    first, line = call("cache").lines
    assert first.endswith(": 1 token store, 0.0 kB")
    assert line.endswith("  1 pair")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_without_consent_nothing_is_deleted(call, error_of, cache, monkeypatch):
    (cache / HASH).mkdir(parents=True)
    assert error_of("cache", "--clear").startswith("--clear: stdin is no terminal; pass --yes")
    assert error_of("cache", "--yes").startswith("--yes: needs --clear")
    for answer, kept in ((b"\n", [HASH]), (b"no\n", [HASH]), (b"y\n", [])):
        with monkeypatch.context() as patch:
            patch.setattr("io.TextIOWrapper", Terminal)
            result = call("cache", "--clear", stdin=answer)
        assert result.code == 0
        assert ("nothing was deleted" in result.err) == bool(kept)
        assert entries(cache) == kept


def test_only_token_stores_are_deleted(call, cache, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    kept = ("thesis", "0123abcd", f"{HASH}x")
    for name in (*kept, HASH, f".{HASH}.ab12_9"):
        (cache / name).mkdir(parents=True)
    (cache / HASH / "link").symlink_to(outside)
    (cache / ("f" * 32)).symlink_to(outside)
    (cache / "a.txt").touch()
    assert call("cache", "--clear", "--yes").code == 0
    assert entries(cache) == sorted((*kept, "f" * 32, "a.txt"))
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_store_that_is_being_built_is_left(call, cache):
    (cache / f".{HASH}.part").mkdir(parents=True)
    with (cache / f"{HASH}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = call("cache", "--clear", "--yes")
    assert "1 token store left, because a run is building there" in result.err
    assert entries(cache) == [f".{HASH}.part"]
    assert call("cache", "--clear", "--yes").out.startswith("deleted 1 token store,")

"""A token store is complete or absent, and built once."""

import gc
import json
import multiprocessing
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from clearhead.data.build import cached_store
from clearhead.data.cleaning import CleaningConfig, Tally, clean
from clearhead.data.pair import TaggedPair
from clearhead.data.sources.corpus import Pair
from clearhead.data.store import PairStore, TokenSequences
from clearhead.errors import DataError
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

PAIRS = [Pair("a " * (1 + number % 7), "b " * (1 + number % 5)) for number in range(10_000)]


class Letters:
    """A stand-in for a tokenizer: one id per word, the code of its first letter."""

    size = 300
    fingerprint = "letters"

    @property
    def for_targets(self) -> "Letters":
        return self

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[ord(word[0]) for word in text.split()] for text in texts]


class Large(Letters):
    size = 100_000
    fingerprint = "large"


def stored(folder: Path, pairs=PAIRS, tokenizer=None, max_length=100, **content) -> PairStore:
    return cached_store(
        folder, content, lambda tally: map(TaggedPair, pairs), tokenizer or Letters(), max_length
    )


def test_a_store_returns_the_ids_of_the_tokenizer(tmp_path):
    store = stored(tmp_path)
    sources, targets = (Letters().encode_batch([pair[side] for pair in PAIRS]) for side in (0, 1))
    assert len(store) == len(PAIRS)
    assert all(
        store[i][0].tolist() == sources[i] and store[i][1].tolist() == targets[i]
        for i in range(0, 10_000, 97)
    )
    assert store.lengths[0].tolist() == [len(ids) for ids in sources]
    assert store.lengths[1].tolist() == [len(ids) for ids in targets]


def test_a_repeated_text_is_encoded_once_on_whichever_side_it_is(tmp_path):
    encoded: list[str] = []

    class Counting(Letters):
        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            encoded.extend(texts)
            return super().encode_batch(texts)

    pairs = [Pair("one", "zwei drei"), Pair("zwei drei", "one"), Pair("one", "vier")]
    store = stored(tmp_path, pairs, Counting())
    assert sorted(encoded) == ["one", "vier", "zwei drei"]
    assert [store[row][1].tolist() for row in range(3)] == [list(b"zd"), list(b"o"), list(b"v")]


def test_targets_that_split_text_differently_are_encoded_by_their_own_tokenizer(tmp_path):
    class Capitals(Letters):
        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            return super().encode_batch([text.upper() for text in texts])

    class TwoSided(Letters):
        for_targets = Capitals()  # pyright: ignore[reportAssignmentType]

    source, target = stored(tmp_path, [Pair("a b", "a b")], TwoSided())[0]
    assert (source.tolist(), target.tolist()) == (list(b"ab"), list(b"AB"))


@pytest.mark.parametrize("enabled", [True, False])
def test_building_a_store_leaves_the_garbage_collector_as_it_was(tmp_path, enabled):
    def read():
        assert not gc.isenabled()
        yield Pair("one", "eins")

    if not enabled:
        gc.disable()
    try:
        stored(tmp_path, read(), part="one")
        assert gc.isenabled() is enabled
        with pytest.raises(DataError):
            stored(tmp_path, [Pair("", "")], part="none")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_gathered_rows_equal_single_rows(tmp_path):
    side = stored(tmp_path).source
    rows = np.array([5, 0, 9999, 5])
    gathered = side.gather(rows)
    assert [gathered[i].tolist() for i in range(4)] == [side[row].tolist() for row in rows]


def test_ids_take_two_bytes_where_the_vocabulary_fits(tmp_path):
    assert stored(tmp_path).source.ids.dtype == np.uint16
    assert stored(tmp_path, tokenizer=Large()).source.ids.dtype == np.uint32


def test_long_and_empty_sentences_are_dropped_and_counted(tmp_path):
    store = stored(
        tmp_path, [Pair("a", "b"), Pair("a a a a", "b"), Pair("a", "b b b b"), Pair("", "b")], max_length=3
    )
    assert (len(store), store.meta["too_long"]) == (1, 3)


def test_a_tag_precedes_its_source_and_counts_towards_its_length(tmp_path):
    pairs = [TaggedPair(Pair(source, target), tag) for source, target, tag in TAGGED]
    store = cached_store(tmp_path, {}, lambda tally: pairs, Letters(), 3)
    rows = [[side.tolist() for side in store[row]] for row in range(len(store))]
    assert rows == [[[7, 97, 97], [98]], [[97, 97, 97], [98]], [[8, 97], [98, 98, 98]]]
    assert store.meta["too_long"] == 2


TAGGED = [("a a", "b", 7), ("a a a", "b", 7), ("a a a", "b", None), ("a", "b b b", 8), ("", "b", 8)]


def test_the_tally_of_cleaning_is_saved_with_the_store(tmp_path):
    def pairs(tally: Tally):
        return map(TaggedPair, clean(PAIRS, CleaningConfig(), tally))

    for _ in range(2):
        store = cached_store(tmp_path, {}, pairs, Letters(), 100)
        assert store.meta["tally"] == {"kept": 35, "dropped": {"duplicate": 9965}}


def test_a_store_is_built_once_per_content(tmp_path):
    stored(tmp_path, part="train")
    assert len(stored(tmp_path, pairs=None, part="train")) == len(PAIRS)
    assert len(stored(tmp_path, PAIRS[:10], part="test")) == 10
    assert len(stored(tmp_path, PAIRS[:10], part="train", max_length=99)) == 10
    assert len(stored(tmp_path, PAIRS[:10], tokenizer=Large(), part="train")) == 10


@pytest.mark.parametrize("name", ["source.ids", "target.offsets", "meta.json"])
def test_a_truncated_store_is_built_again(tmp_path, name):
    stored(tmp_path)
    [meta] = tmp_path.glob("*/meta.json")
    damaged = meta.parent / name
    damaged.write_bytes(damaged.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"the token store is damaged .*; build it again"):
        PairStore.open(meta.parent)
    assert stored(tmp_path)[9999][0].tolist() == Letters().encode_batch([PAIRS[9999].source])[0]


def test_offsets_out_of_order_and_missing_files_are_noticed(tmp_path):
    stored(tmp_path)
    [meta] = tmp_path.glob("*/meta.json")
    folder = meta.parent
    offsets = np.fromfile(folder / "source.offsets", dtype=np.int64)
    offsets[[3, 4]] = offsets[[4, 3]]
    offsets.tofile(folder / "source.offsets")
    with pytest.raises(DataError, match=r"source\.offsets are not in order"):
        PairStore.open(folder)
    (folder / "source.offsets").unlink()
    with pytest.raises(DataError, match=r"no token store \(no source\.offsets\)"):
        PairStore.open(folder)
    meta.write_text(json.dumps({"format": 99}))
    with pytest.raises(DataError, match="token store of format 99"):
        PairStore.open(folder)


def test_an_empty_store_is_rejected_with_the_tally(tmp_path):
    with pytest.raises(
        DataError, match="no pairs are left to train on: 2 pairs read, 0 kept; dropped: 2 empty"
    ):
        cached_store(
            tmp_path, {}, lambda tally: clean([Pair("", "b")] * 2, CleaningConfig(), tally), Letters(), 100
        )
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.parametrize("broken", ["write", "sync"])
def test_a_full_disk_is_reported_and_leaves_no_partial_store(tmp_path, monkeypatch, broken):
    def full(*_):
        raise OSError(28, "No space left on device")

    function = {"write": "clearhead.data.build.SequenceWriter.add", "sync": "os.fsync"}[broken]
    with monkeypatch.context() as patch:
        patch.setattr(function, full)
        with pytest.raises(DataError, match=r"cannot be written \(No space left on device\); make room"):
            stored(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(stored(tmp_path)) == len(PAIRS)


def build_within(folder: str, most: int, results) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        stored(Path(folder))
    except DataError as error:
        results.put(str(error))


def test_a_file_size_limit_is_reported_and_leaves_no_partial_store(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=build_within, args=(str(tmp_path), 30_000, results))
    process.start()
    assert "the token store cannot be written (File too large); make room" in results.get(timeout=30)
    process.join()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_an_error_while_reading_leaves_no_partial_store(tmp_path):
    def pairs():
        yield from PAIRS
        raise DataError("x.tsv, line 3: not UTF-8")

    with pytest.raises(DataError, match="line 3"):
        stored(tmp_path, pairs())
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def slow_pairs(folder: Path, wait: float):
    with (folder / "built").open("a") as file:
        file.write(f"{os.getpid()}\n")
    for number, pair in enumerate(PAIRS):
        if number % 1000 == 0:
            time.sleep(wait)
        yield pair


def build_slowly(folder: str, wait: float, results) -> None:
    store = stored(Path(folder, "cache"), slow_pairs(Path(folder), wait))
    results.put((len(store), int(store.source.ids.sum())))


def test_two_processes_build_one_store_even_if_a_third_is_killed(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    killed = context.Process(target=build_slowly, args=(str(tmp_path), 0.5, results))
    killed.start()
    while not (tmp_path / "built").exists():
        time.sleep(0.01)
    both = [context.Process(target=build_slowly, args=(str(tmp_path), 0.02, results)) for _ in range(2)]
    for process in both:
        process.start()
    killed.kill()
    first, second = results.get(timeout=30), results.get(timeout=30)
    for process in (*both, killed):
        process.join()
    assert first == second == (len(PAIRS), int(stored(tmp_path / "fresh").source.ids.sum()))
    assert len((tmp_path / "built").read_text().split()) == 2
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 1


def test_unequal_numbers_of_sources_and_targets_are_rejected():
    with pytest.raises(DataError, match="one target per source, got 1 and 2"):
        PairStore(TokenSequences.of([[4]]), TokenSequences.of([[4], [5]]))


def test_a_store_of_a_real_tokenizer_decodes(tmp_path):
    pairs = [Pair("The dog runs.", "Der Hund rennt."), Pair("A cat sleeps.", "Eine Katze schläft.")] * 50
    tokenizer = Tokenizer.train([text for pair in pairs for text in pair], TokenizerConfig(vocabulary=80))
    store = stored(tmp_path, pairs, tokenizer)
    assert tokenizer.decode(store[1][1].tolist()) == "Eine Katze schläft."

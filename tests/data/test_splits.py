"""No sentence lies in two parts of a corpus."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.corpus import Pair, read_pairs
from clearhead.data.splits import HeldOut, Split, hold_out
from clearhead.errors import DataError

PAIRS = [Pair(f"sentence {number // 3}", f"Satz {number}") for number in range(3000)]
LANGUAGES = ("en", "de")


def turned(pairs: list[Pair]) -> list[Pair]:
    return [Pair(target, source) for source, target in pairs]


def parts(split: Split, pairs: list[Pair]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    held: HeldOut = {"validation": [], "test": []}
    return list(split.train(pairs, held)), held["validation"], held["test"]


def test_the_parts_share_no_sentence_and_have_the_sizes_asked_for():
    split = hold_out(PAIRS, LANGUAGES, validation=100, test=50)
    train, validation, test = parts(split, PAIRS)
    assert (len(validation), len(test)) == (100, 50)
    assert len(train) >= len(PAIRS) - 150 - 4
    sentences = [{pair.source for pair in part} for part in (train, validation, test)]
    assert sum(map(len, sentences)) == len(set().union(*sentences)) == 1000


def test_every_pair_has_exactly_one_part():
    split = hold_out(PAIRS, LANGUAGES, validation=100, test=50)
    found = [split.part(pair) for pair in PAIRS]
    assert 50 <= found.count("test") <= 52
    assert 100 <= found.count("validation") <= 102


def test_both_directions_have_the_same_split():
    there = hold_out(PAIRS, LANGUAGES, validation=60, test=60)
    back = hold_out(turned(PAIRS), ("de", "en"), validation=60, test=60)
    for forth, other in zip(parts(there, PAIRS), parts(back, turned(PAIRS)), strict=True):
        assert turned(forth) == other


def test_without_english_the_source_is_the_key():
    split = hold_out(PAIRS, ("fr", "de"), validation=30, test=30)
    train, _, test = parts(split, PAIRS)
    assert not {pair.source for pair in train} & {pair.source for pair in test}


def test_the_split_depends_on_the_seed_but_not_on_order_case_or_spaces():
    first = hold_out(PAIRS, LANGUAGES, 100, 50, seed=1)
    assert first == hold_out(PAIRS[::-1], LANGUAGES, 100, 50, seed=1)
    assert first != hold_out(PAIRS, LANGUAGES, 100, 50, seed=2)
    pair = parts(first, PAIRS)[2][0]
    assert first.part(Pair(" " + pair.source.upper().replace(" ", "\u00a0"), "x")) == "test"


def test_every_seed_that_numpy_takes_makes_its_own_split():
    seeds = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64, 2**200]
    for seed in seeds:
        np.random.default_rng(seed)
    bounds = {hold_out(PAIRS, LANGUAGES, 100, 50, seed=seed).test_end for seed in seeds}
    assert len(bounds) == len(seeds)


@pytest.mark.parametrize(("validation", "test"), [(0, 0), (10, 0), (0, 10)])
def test_a_part_may_be_empty(validation, test):
    split = hold_out(PAIRS, LANGUAGES, validation, test)
    assert [len(part) for part in parts(split, PAIRS)[1:]] == [validation, test]


@pytest.mark.parametrize(("validation", "test"), [(2000, 1000), (5000, 0), (0, 3000)])
def test_holding_out_everything_is_refused(validation, test):
    with pytest.raises(DataError, match=f"{validation} pairs .* {test} for testing leave none of 3000"):
        hold_out(PAIRS, LANGUAGES, validation, test)
    with pytest.raises(DataError, match="leave none of 0"):
        hold_out([], LANGUAGES, 1, 1)


@given(
    keys=st.lists(st.integers(0, 25), min_size=1, max_size=80),
    validation=st.integers(0, 20),
    test=st.integers(0, 20),
    chunk=st.integers(1, 100),
)
def test_any_corpus_is_split_exactly_or_refused(keys, validation, test, chunk):
    pairs = [Pair(f"key {key}", f"{number}") for number, key in enumerate(keys)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.data.splits.CHUNK", chunk)
        try:
            split = hold_out(pairs, LANGUAGES, validation, test)
        except DataError:
            most = max(keys.count(key) for key in keys)
            assert len(keys) - validation - test <= 2 * most
            return
    found = parts(split, pairs)
    assert found[0]
    assert [len(part) for part in found[1:]] == [validation, test]
    sentences = [{pair.source for pair in part} for part in found]
    assert sum(map(len, sentences)) == len(set().union(*sentences))


def test_the_shipped_corpus_is_split_by_english_sentence():
    pairs = list(islice(read_pairs("tatoeba-en-de", LANGUAGES), 0, None, 3))
    split = hold_out(pairs, LANGUAGES, validation=1000, test=1000)
    train, validation, test = parts(split, pairs)
    held = [*validation, *test]
    assert len(held) == 2000
    assert not {pair.source.casefold() for pair in train} & {pair.source.casefold() for pair in held}

"""No sentence is in two parts of a corpus."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.sources.corpus import Pair, read_pairs
from clearhead.data.splits import HeldOut, Split, UnsplitCorpus, hold_out
from clearhead.errors import DataError

PAIRS = [Pair(f"sentence {number // 3}", f"Satz {number}") for number in range(3000)]
LANGUAGES = ("en", "de")


def swapped(pairs: list[Pair]) -> list[Pair]:
    return [Pair(target, source) for source, target in pairs]


def split_of(
    pairs: list[Pair], languages: tuple[str, str], validation: int, test: int, seed: int = 0
) -> Split:
    """The split of a single corpus."""
    [split] = hold_out([UnsplitCorpus(pairs, languages, validation, test)], seed)
    return split


def parts(split: Split, pairs: list[Pair]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    held_out: HeldOut = {"validation": [], "test": []}
    return list(split.train(pairs, held_out)), held_out["validation"], held_out["test"]


def test_the_parts_share_no_sentence_and_have_the_requested_sizes():
    split = split_of(PAIRS, LANGUAGES, validation=100, test=50)
    train, validation, test = parts(split, PAIRS)
    assert (len(validation), len(test)) == (100, 50)
    assert len(train) >= len(PAIRS) - 150 - 4
    sentences = [{pair.source for pair in part} for part in (train, validation, test)]
    assert sum(map(len, sentences)) == len(set().union(*sentences)) == 1000


def test_a_corpus_that_holds_nothing_out_is_not_read_and_may_have_only_pairs_held_out_elsewhere():
    rest = iter(PAIRS)
    splits = hold_out([UnsplitCorpus(PAIRS, LANGUAGES, 40, 30), UnsplitCorpus(rest, LANGUAGES, 0, 0)])
    assert len(list(rest)) == len(PAIRS)
    one = next(pair for pair in PAIRS if splits[0].part(pair) == "test")
    assert splits[1].part(one) is None
    assert splits == hold_out(
        [UnsplitCorpus(PAIRS, LANGUAGES, 40, 30), UnsplitCorpus([one], LANGUAGES, 0, 0)]
    )


def test_every_pair_has_exactly_one_part():
    split = split_of(PAIRS, LANGUAGES, validation=100, test=50)
    found = [split.part(pair) for pair in PAIRS]
    assert 50 <= found.count("test") <= 52
    assert 100 <= found.count("validation") <= 102


def test_both_directions_have_the_same_split():
    there = split_of(PAIRS, LANGUAGES, validation=60, test=60)
    back = split_of(swapped(PAIRS), ("de", "en"), validation=60, test=60)
    for forth, other in zip(parts(there, PAIRS), parts(back, swapped(PAIRS)), strict=True):
        assert swapped(forth) == other


def test_without_english_the_source_is_the_key():
    split = split_of(PAIRS, ("fr", "de"), validation=30, test=30)
    train, _, test = parts(split, PAIRS)
    assert not {pair.source for pair in train} & {pair.source for pair in test}


def test_the_split_depends_on_the_seed_but_not_on_order_case_or_spaces():
    first = split_of(PAIRS, LANGUAGES, 100, 50, seed=1)
    assert first == split_of(PAIRS[::-1], LANGUAGES, 100, 50, seed=1)
    assert first != split_of(PAIRS, LANGUAGES, 100, 50, seed=2)
    pair = parts(first, PAIRS)[2][0]
    assert first.part(Pair(" " + pair.source.upper().replace(" ", "\u00a0"), "x")) == "test"


def test_every_seed_gives_another_split():
    seeds = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64, 2**200]
    for seed in seeds:
        np.random.default_rng(seed)
    tests = {split_of(PAIRS, LANGUAGES, 100, 50, seed=seed).test for seed in seeds}
    assert len(tests) == len(seeds)


@pytest.mark.parametrize(("validation", "test"), [(0, 0), (10, 0), (0, 10)])
def test_a_part_may_be_empty(validation, test):
    split = split_of(PAIRS, LANGUAGES, validation, test)
    assert [len(part) for part in parts(split, PAIRS)[1:]] == [validation, test]


@pytest.mark.parametrize(("validation", "test"), [(2000, 1000), (5000, 0), (0, 3000)])
def test_holding_out_everything_is_rejected(validation, test):
    with pytest.raises(DataError, match=f"{validation:,} pairs .* {test:,} for testing leave none of 3,000"):
        split_of(PAIRS, LANGUAGES, validation, test)
    with pytest.raises(DataError, match="leave none of 0"):
        split_of([], LANGUAGES, 1, 1)


def test_a_corpus_that_holds_nothing_out_may_be_empty():
    whole = [UnsplitCorpus(PAIRS, LANGUAGES, 10, 10), UnsplitCorpus([], LANGUAGES, 0, 0)]
    first, second = hold_out(whole, 1)
    assert [len(part) for part in parts(first, PAIRS)[1:]] == [10, 10]
    assert not any(parts(second, []))


def test_a_sentence_with_too_many_translations_is_not_held_out():
    for seed in range(20):
        often = [Pair(PAIRS[0].source, f"Satz {number} anders") for number in range(300)]
        split = split_of([*PAIRS, *often], LANGUAGES, validation=200, test=200, seed=seed)
        assert split.part(PAIRS[0]) == "train"
        train, validation, test = parts(split, [*PAIRS, *often])
        assert (len(validation), len(test)) == (200, 200)
        assert len(train) >= len(PAIRS) + 300 - 400 - 4


@given(
    keys=st.lists(st.integers(0, 25), min_size=1, max_size=80),
    validation=st.integers(0, 20),
    test=st.integers(0, 20),
    chunk=st.integers(1, 100),
)
def test_any_corpus_is_split_exactly_or_rejected(keys, validation, test, chunk):
    pairs = [Pair(f"key {key}", f"{number}") for number, key in enumerate(keys)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.data.splits.CHUNK", chunk)
        try:
            split = split_of(pairs, LANGUAGES, validation, test)
        except DataError:
            most = max(keys.count(key) for key in keys)
            assert len(keys) - validation - test <= 2 * most
            return
    found = parts(split, pairs)
    assert found[0]
    assert [len(part) for part in found[1:]] == [validation, test]
    sentences = [{pair.source for pair in part} for part in found]
    assert sum(map(len, sentences)) == len(set().union(*sentences))


FRENCH = [Pair(f"phrase {number}", f"Sentence {number // 2}") for number in range(1500)]


def test_no_corpus_trains_on_sentences_that_another_holds_out():
    """Both corpora have English sentences 0 to 749, on different sides, with other translations."""
    corpora = [UnsplitCorpus(PAIRS, LANGUAGES, 100, 60), UnsplitCorpus(FRENCH, ("fr", "en"), 40, 200)]
    german, french = hold_out(corpora, seed=3)
    train, validation, test = parts(german, PAIRS)
    train_too, validation_too, test_too = (swapped(part) for part in parts(french, FRENCH))
    assert [len(part) for part in (validation, test, validation_too, test_too)] == [100, 60, 40, 200]
    sentences = [
        {pair.source.casefold() for pair in (*first, *second)}
        for first, second in ((train, train_too), (validation, validation_too), (test, test_too))
    ]
    assert sum(map(len, sentences)) == len(set().union(*sentences))
    # Only held-out sentences are missing.
    assert len(sentences[0]) >= 1000 - len(sentences[1]) - len(sentences[2]) - 4


def test_held_out_sentences_are_not_trained_on_where_another_language_is_the_key():
    """German is the key between German and French, but not between English and German."""
    between = [Pair(f"Satz {number}", f"phrase {number}") for number in range(0, 3000, 2)]
    english, german = hold_out(
        [UnsplitCorpus(PAIRS, LANGUAGES, 20, 10), UnsplitCorpus(between, ("de", "fr"), 40, 200)]
    )
    train = parts(english, PAIRS)[0]
    _, validation, test = parts(german, between)
    assert (len(validation), len(test)) == (40, 200)
    assert not {pair.target for pair in train} & {pair.source for pair in (*validation, *test)}
    assert len(train) >= 3000 - 240 - 30 - 4


def test_other_corpora_do_not_change_the_test_sentences():
    alone = split_of(PAIRS, LANGUAGES, 100, 60)
    beside, _ = hold_out(
        [UnsplitCorpus(PAIRS, LANGUAGES, 100, 60), UnsplitCorpus(FRENCH, ("fr", "en"), 40, 10)]
    )
    assert parts(beside, PAIRS)[2] == parts(alone, PAIRS)[2]


def test_a_corpus_that_others_hold_out_entirely_is_rejected_by_name():
    corpora = [UnsplitCorpus(PAIRS, LANGUAGES, 0, 600), UnsplitCorpus(PAIRS[:30], ("en", "fr"), 16, 12)]
    with pytest.raises(DataError, match=r"en-fr: 16 pairs for validation and 12 .* leave none of 30"):
        hold_out(corpora)


@given(
    first=st.lists(st.integers(0, 25), min_size=1, max_size=60),
    second=st.lists(st.integers(10, 40), min_size=1, max_size=60),
    sizes=st.tuples(*[st.integers(0, 8)] * 4),
)
def test_any_two_corpora_are_split_exactly_or_rejected(first, second, sizes):
    pairs = [[Pair(f"key {key}", f"{number}") for number, key in enumerate(keys)] for keys in (first, second)]
    corpora = [
        UnsplitCorpus(pairs[0], LANGUAGES, *sizes[:2]),
        UnsplitCorpus(pairs[1], ("en", "fr"), *sizes[2:]),
    ]
    try:
        splits = hold_out(corpora)
    except DataError:
        return
    found = [parts(split, some) for split, some in zip(splits, pairs, strict=True)]
    assert [len(part) for some in found for part in some[1:]] == list(sizes)
    assert all(some[0] for some in found)
    sentences = [{pair.source for some in found for pair in some[part]} for part in range(3)]
    assert sum(map(len, sentences)) == len(set().union(*sentences))


def test_the_shipped_corpus_is_split_by_english_sentence():
    pairs = list(islice(read_pairs("tatoeba-en-de", LANGUAGES), 0, None, 3))
    split = split_of(pairs, LANGUAGES, validation=1000, test=1000)
    train, validation, test = parts(split, pairs)
    held_out = [*validation, *test]
    assert len(held_out) == 2000
    assert not {pair.source.casefold() for pair in train} & {pair.source.casefold() for pair in held_out}

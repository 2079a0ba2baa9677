"""Cleaning drops unusable pairs and counts them by reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.cleaning import CleaningConfig, HashSet, Tally, clean, normalized
from clearhead.data.sources.corpus import Pair

CONFIG = CleaningConfig(max_words=5, max_characters=40, ratio=3.0)


def cleaned(*pairs: tuple[str, str], config: CleaningConfig = CONFIG) -> tuple[list[Pair], Tally]:
    tally = Tally()
    return list(clean([Pair(*pair) for pair in pairs], config, tally)), tally


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("", "a"), "empty"),
        (("a", " \u00a0\t"), "empty"),
        (("one two three four five six", "eins zwei"), "too long"),
        (("x" * 41, "y" * 41), "too long"),
        (("ja", "a rather-overlong-compound-sentence, is it"[:39]), "unequal lengths"),
        (("Taxi!", "Taxi!"), "identical"),
    ],
)
def test_a_bad_pair_is_dropped_and_counted_by_reason(pair, reason):
    kept, tally = cleaned(pair, ("good", "gut"))
    assert kept == [Pair("good", "gut")]
    assert tally.dropped == {reason: 1}
    assert (tally.read, tally.kept) == (2, 1)


def test_duplicates_are_dropped_but_other_translations_stay():
    kept, tally = cleaned(("a  b", "c"), ("a\u00a0b", "c "), ("a b", "d"))
    assert kept == [Pair("a b", "c"), Pair("a b", "d")]
    assert tally.dropped == {"duplicate": 1}


def test_a_few_letters_do_not_matter_in_short_phrases():
    assert cleaned(("Go!", "Geh jetzt weg!"))[0]


def test_rules_can_be_switched_off():
    config = CleaningConfig(drop_duplicates=False, drop_identical=False)
    assert len(cleaned(("Taxi!", "Taxi!"), ("Taxi!", "Taxi!"), config=config)[0]) == 2


def test_normalizing_alone_drops_only_empty_pairs():
    long = "word " * 3000
    pairs = [Pair("a\u00a0 b", "c"), Pair("a b", "c"), Pair("x", "x"), Pair(long, "y"), Pair(" ", "z")]
    tally = Tally()
    kept = list(normalized(pairs, tally))
    assert kept == [Pair("a b", "c"), Pair("a b", "c"), Pair("x", "x"), Pair(long.strip(), "y")]
    assert (tally.kept, tally.dropped) == (4, {"empty": 1})


def test_the_tally_prints_as_one_line():
    tally = cleaned(("a", "b"), ("a", "b"), ("a", "b"), ("", "b"))[1]
    assert str(tally) == "4 pairs read, 1 kept; dropped: 2 duplicate, 1 empty"
    assert str(Tally(kept=1000)) == "1,000 pairs read, 1,000 kept"


def test_duplicates_are_found_across_chunks():
    pairs = [Pair(f"a {number % 5000}", f"b {number % 5000}") for number in range(12_000)]
    tally = Tally()
    assert list(clean(pairs, CONFIG, tally)) == pairs[:5000]
    assert tally.dropped == {"duplicate": 7000}


@given(st.lists(st.lists(st.integers(0, 30), min_size=1), max_size=20))
def test_a_hash_set_agrees_with_a_python_set(chunks):
    seen, reference = HashSet(), set()
    for chunk in chunks:
        expected = []
        for number in chunk:
            expected.append(number not in reference)
            reference.add(number)
        assert seen.add(np.array(chunk, dtype=np.uint64)).tolist() == expected

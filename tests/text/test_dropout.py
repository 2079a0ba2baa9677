"""BPE dropout cuts words at random, and reproducibly."""

import pickle
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import SettingsError
from clearhead.text.dropout import Drops, MergeDropout
from clearhead.text.normalize import normalize
from clearhead.text.tokenizer import Tokenizer

from .conftest import LETTERS, SENTENCES, SIGNS, tokenizer_of

words = st.text(st.sampled_from(LETTERS + SIGNS + " 漢字"))


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
@given(text=words)
def test_a_dropout_that_drops_nothing_equals_the_plain_encoding(kind: str, text: str):
    tokenizer = tokenizer_of(kind)
    nearly_never = tokenizer.with_dropout(1e-12, 1)
    assert nearly_never.encode(text) == tokenizer.encode(text)
    assert tokenizer.with_dropout(0.0).encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_a_dropout_of_everything_leaves_characters(kind: str):
    dropped = tokenizer_of(kind).with_dropout(1.0)
    assert all(len(piece) == 1 for piece in dropped.pieces(dropped.encode("Der Hund ist im Garten.")))


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
@given(text=st.text(st.sampled_from(LETTERS + SIGNS + " ")), seed=st.integers(0, 9))
def test_the_text_stays_the_same_under_dropout(kind: str, text: str, seed: int):
    dropped = tokenizer_of(kind).with_dropout(0.5, seed)
    expected = normalize(text) if kind == "bpe" else text
    assert dropped.decode(dropped.encode(text)) == expected


def test_a_text_is_cut_the_same_way_for_a_seed_and_differently_for_another(
    of_kind: Callable[[str], Tokenizer],
):
    tokenizer, text = of_kind("bpe"), " ".join(SENTENCES)
    assert tokenizer.with_dropout(0.3, 7, 1).encode(text) == tokenizer.with_dropout(0.3, 7, 1).encode(text)
    assert tokenizer.with_dropout(0.3, 7, 1).encode(text) != tokenizer.with_dropout(0.3, 7, 2).encode(text)


def test_neither_order_nor_company_nor_process_changes_a_cut(of_kind: Callable[[str], Tokenizer]):
    dropped = of_kind("bpe").with_dropout(0.3, 7)
    expected = [dropped.encode(text) for text in SENTENCES]
    assert dropped.encode_batch(SENTENCES[::-1])[::-1] == expected
    assert pickle.loads(pickle.dumps(dropped)).encode_batch(SENTENCES) == expected


def test_dropout_is_no_part_of_what_is_saved(of_kind: Callable[[str], Tokenizer]):
    tokenizer = of_kind("bpe")
    assert tokenizer.with_dropout(0.3, 7).to_json() == tokenizer.to_json()
    assert tokenizer.with_dropout(0.3, 7).fingerprint == tokenizer.fingerprint


def test_cuts_are_as_frequent_as_in_the_library(of_kind: Callable[[str], Tokenizer]):
    """The library draws from a source without a seed, so only its frequencies can be compared."""
    import tokenizers

    tokenizer = of_kind("bpe")
    library = tokenizers.Tokenizer.from_str(tokenizer._inner.to_str())
    library.model.dropout = 0.3
    tries = 4000
    ours, theirs = Counter(), Counter()
    for number in range(tries):
        ours[tuple(tokenizer.with_dropout(0.3, number).encode("Hund"))] += 1
        theirs[tuple(library.encode("Hund").ids)] += 1
    assert set(ours) == set(theirs)
    for cut, count in theirs.items():
        assert abs(ours[cut] - count) < 6 * (2 * count) ** 0.5 + 3


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.7, 1.0])
def test_chances_are_lost_with_the_given_probability(probability: float):
    drops = Drops(probability, Random(3))
    lost = sum(drops.next() for _ in range(20_000))
    assert lost / 20_000 == pytest.approx(probability, abs=0.015)


def test_a_word_is_finished_when_all_merges_are_passed_over():
    dropout = MergeDropout([("a", "b"), ("ab", "c")], {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, unknown=9)
    cuts = {tuple(dropout.encode("abc", Drops(0.5, Random(seed)))) for seed in range(100)}
    assert cuts == {(0, 1, 2), (3, 2), (4,)}


@pytest.mark.parametrize("kind", ["unigram", "word", "character"])
def test_only_merges_can_be_dropped(kind: str):
    with pytest.raises(
        SettingsError, match=f"tokenizer: kind {kind} has no merges to drop; use kind bpe or bytes"
    ):
        tokenizer_of(kind).with_dropout(0.1)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_dropout_that_is_no_probability_is_refused(probability: float):
    with pytest.raises(SettingsError, match="is not between 0 and 1"):
        tokenizer_of("bpe").with_dropout(probability)

"""Cross-attention aligns the words of sentence pairs."""

import pytest
from hansards import HANSARDS, read_hansards

import clearhead
from clearhead.errors import TextError
from clearhead.evaluation.alignment import alignment_score
from clearhead.tasks.translation.alignment import best_aligners, capture_pairs
from clearhead.tasks.zoo import BUILT_IN


def test_a_small_translator_aligns_words_with_their_digits(multilingual_model):
    model = clearhead.load(multilingual_model)
    pairs = [(["three", "one", "four"], ["3", "1", "4"]), (["nine", "zero"], ["9", "0"])]
    captured = list(capture_pairs(model, pairs, to="de"))
    best = best_aligners(captured)[0]
    assert [one.links(best) for one in captured] == [{(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 1)}]


def test_pairs_that_are_too_long_are_refused_by_number(multilingual_model):
    pairs = [(["one"], ["1"]), (["one"] * 40, ["1"])]
    with pytest.raises(TextError, match="pair 2: 40 tokens, but the model takes at most 14; split it"):
        list(capture_pairs(clearhead.load(multilingual_model), pairs, to="fr"))


@pytest.mark.skipif(not BUILT_IN["en-de-fr"].exists(), reason="no built-in model")
def test_the_built_in_model_aligns_words_like_people(measuring_data):
    """With a head chosen without gold; the error rate is 0.164.

    Two heads are nearly equal by agreement: with every fourth sentence, the worse one is chosen.
    """
    gold = read_hansards(measuring_data / HANSARDS)
    captured = list(capture_pairs(clearhead.load("en-fr"), [(pair.source, pair.target) for pair in gold]))
    best = best_aligners(captured)[0]
    score = alignment_score([one.links(best) for one in captured], gold)
    assert score.error_rate < 0.22
    assert score.precision > 0.75

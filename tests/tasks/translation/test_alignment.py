"""Words of given pairs, aligned by a translator."""

import pytest

import clearhead
from clearhead.errors import TextError
from clearhead.evaluation.alignment import HANSARDS, alignment_score, read_hansards
from clearhead.tasks.translation.alignment import best_aligners, look_at_words
from clearhead.tasks.zoo import BUILT_IN


def test_a_toy_translator_aligns_words_with_their_digits(multilingual_model):
    model = clearhead.load(multilingual_model)
    pairs = [(["three", "one", "four"], ["3", "1", "4"]), (["nine", "zero"], ["9", "0"])]
    looked = list(look_at_words(model, pairs, to="de"))
    best = best_aligners(looked)[0]
    assert [one.links(best) for one in looked] == [{(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 1)}]


def test_words_beyond_the_model_are_named(multilingual_model):
    with pytest.raises(TextError, match="pair 2: 40 tokens, and the model takes 14"):
        list(
            look_at_words(
                clearhead.load(multilingual_model), [(["one"], ["1"]), (["one"] * 40, ["1"])], to="fr"
            )
        )


@pytest.mark.skipif(not BUILT_IN["en-de-fr"].exists(), reason="the package has no model in it yet")
def test_the_model_in_the_package_aligns_words_as_people_do(measuring_data):
    """Every twelfth sentence; the head is chosen without gold. All 447 have an error rate of 0.148."""
    gold = read_hansards(measuring_data / HANSARDS)[::12]
    looked = list(look_at_words(clearhead.load("en-fr"), [(pair.source, pair.target) for pair in gold]))
    best = best_aligners(looked)[0]
    score = alignment_score([one.links(best) for one in looked], gold)
    assert score.error_rate < 0.22
    assert score.precision > 0.75

"""The score of a text by a language model: equal to its loss, and to the log-probabilities of generation."""

import math

import pytest

import clearhead
from clearhead.errors import TextError

TEXT = "to be or not to be"


@pytest.fixture(scope="module")
def language(babbler):
    return clearhead.load(babbler)


def test_a_generated_text_has_the_log_probability_of_the_generation(language):
    found = language.generate("to be", tokens=12, temperature=0)
    scored = language.score(found.text, prompt="to be")
    # Special tokens are suppressed in generation, which makes all others a little more likely.
    assert scored.sum_log_prob == pytest.approx(found.sum_log_prob, abs=0.05)
    assert len(scored.tokens) == len(found.tokens)


@pytest.mark.parametrize("copies", [1, 20])
def test_the_perplexity_is_that_of_an_evaluation(language, copies, tmp_path):
    text = " ".join([TEXT] * copies)
    assert (len(language.encode(text)) > language.context_length) == (copies > 1)
    (tmp_path / "test.txt").write_text(text)
    record = language.evaluate(text=str(tmp_path / "test.txt")).record
    scored = language.score(text)
    assert len(scored.tokens) == record["tokens"]
    assert scored.perplexity == pytest.approx(record["perplexity"], rel=1e-4)


def test_a_score_does_not_depend_on_the_texts_beside_it(language):
    texts = [TEXT, TEXT[:8], TEXT * 9]
    for text, one in zip(texts, language.score(texts), strict=True):
        alone = language.score(text)
        assert list(one.log_probs) == pytest.approx(list(alone.log_probs), abs=1e-4)
    whole, parts = language.score(TEXT), language.score(TEXT[8:], prompt=TEXT[:8])
    assert parts.sum_log_prob == pytest.approx(sum(whole.log_probs[-len(parts.log_probs) :]), abs=1e-4)


def test_a_text_without_a_token_to_predict_is_named(language):
    with pytest.raises(TextError, match="text 2: 3 is of type int; pass a str"):
        language.score(["to", 3])
    with pytest.raises(TextError, match=r"text 1: '' has no token to predict; give a longer text"):
        language.score("", prompt="to be")


def test_repr_shows_the_log_probability(language):
    scored = language.score("to be")
    assert repr(scored).startswith(f"TextScore('to be': log-probability {scored.sum_log_prob:.4f}, ")
    assert scored.perplexity == pytest.approx(math.exp(-scored.mean_log_prob))

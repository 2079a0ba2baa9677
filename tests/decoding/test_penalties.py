"""Penalties follow their papers."""

import pytest
import torch

from clearhead.decoding import (
    Constraints,
    beam_search,
    greedy_search,
    length_normalizer,
    no_repeat_ngrams,
    repetition_penalty,
)
from clearhead.errors import SettingsError

START, END = 0, 1
SEEDS = list(range(20))


def starts(sentences: int) -> torch.Tensor:
    return torch.full((sentences,), START)


def test_the_length_normalizer_is_one_for_a_single_token_and_grows_with_the_penalty():
    assert length_normalizer(1, 0.6) == 1
    assert length_normalizer(50, 0.0) == 1
    assert length_normalizer(7, 1.0) == pytest.approx(2)
    assert length_normalizer(7, 0.6) == pytest.approx(2**0.6)


def test_repetition_penalty_lowers_positive_and_negative_logits_of_used_tokens():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    adjusted = repetition_penalty(2.0)(logits, torch.tensor([[0, 1, 1]]))
    assert adjusted.tolist() == [[1.0, -4.0, 2.0, -2.0]]
    assert repetition_penalty(1.0)(logits, torch.tensor([[0, 1]])).equal(logits)
    assert repetition_penalty(2.0)(logits, torch.empty(1, 0, dtype=torch.long)).equal(logits)


@pytest.mark.parametrize(
    ("size", "tokens", "blocked"),
    [
        (1, [4, 2], {2, 4}),
        (2, [2, 3, 4, 2], {3}),
        (2, [2, 3, 2, 4, 2], {3, 4}),
        (2, [3, 3], {3}),
        (3, [2, 3, 4, 2, 3], {4}),
        (3, [2, 3, 4, 3], set()),
        (2, [2], set()),
        (2, [], set()),
    ],
)
def test_no_repeat_ngrams_blocks_tokens_that_would_repeat_one(size, tokens, blocked):
    given = torch.tensor([tokens], dtype=torch.long).view(1, -1)
    adjusted = no_repeat_ngrams(size)(torch.zeros(1, 6), given)
    assert {token for token in range(6) if adjusted[0, token].isinf()} == blocked


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("size", [1, 2])
def test_searches_never_repeat_a_blocked_ngram(toy, search, size):
    model = toy(SEEDS)
    if search == "greedy":
        found = greedy_search(
            model.step, model, Constraints(starts(20), END, 15, adjust=[no_repeat_ngrams(size)])
        )
    else:
        found = beam_search(
            model.step, model, Constraints(starts(20), END, 15, adjust=[no_repeat_ngrams(size)]), 3, nbest=3
        )
        found = [one for sentence in found for one in sentence]
    for one in found:
        runs = list(zip(*(one.tokens[position:] for position in range(size)), strict=False))
        assert len(set(runs)) == len(runs)


def test_adjustments_are_composed_in_order(toy):
    seen = []

    def first(logits, tokens):
        seen.append(("first", tokens.shape[1]))
        return logits

    def second(logits, tokens):
        seen.append(("second", tokens.shape[1]))
        return logits

    model = toy([1])
    greedy_search(model.step, model, Constraints(starts(1), END, 2, prefix=[[2]], adjust=[first, second]))
    assert seen == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]


def test_values_out_of_range_are_refused():
    with pytest.raises(SettingsError, match=r"^repetition_penalty: 0\.0 should be from 0\.01 to 100"):
        repetition_penalty(0.0)
    with pytest.raises(SettingsError, match=r"^no_repeat_ngrams: 0 should be at least 1"):
        no_repeat_ngrams(0)

"""Samples follow the model's distribution, the filters and the seeds."""

import pytest
import torch

from clearhead.decoding import Constraints, greedy_search, sample
from clearhead.decoding.sampling import inverse_cdf, keep_min_p, keep_top_k, keep_top_p
from clearhead.errors import ModelError, SettingsError

START, END = 0, 1
SEEDS = list(range(30))
SCORES = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()


def starts(sentences: int) -> torch.Tensor:
    return torch.full((sentences,), START)


def possible(scores):
    return scores.isfinite().squeeze(0).tolist()


def run(toy, sentences=SEEDS, seeds=SEEDS, max_length=10, **settings):
    model = toy(sentences)
    return sample(model.step, model, Constraints(starts(len(sentences)), END, max_length), seeds, **settings)


def test_the_same_seed_gives_the_same_sentence(toy):
    assert run(toy) == run(toy)
    assert run(toy) != run(toy, seeds=[seed + 1000 for seed in SEEDS])


def test_a_sentence_alone_equals_the_same_sentence_in_any_batch(toy):
    settings = {"temperature": 1.3, "top_k": 4, "top_p": 0.95, "min_p": 0.01}
    batched = run(toy, **settings)
    assert batched == [run(toy, [seed], [seed], **settings)[0] for seed in SEEDS]
    assert batched == run(toy, SEEDS[::-1], SEEDS[::-1], **settings)[::-1]


def test_a_longer_limit_does_not_change_earlier_tokens(toy):
    for short, long in zip(run(toy, max_length=3), run(toy, max_length=40), strict=True):
        assert long.tokens[: len(short.tokens)] == short.tokens


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}])
def test_the_strictest_filter_equals_greedy_search(toy, settings):
    model = toy(SEEDS)
    greedy = greedy_search(model.step, model, Constraints(starts(len(SEEDS)), END, 10))
    assert run(toy, **settings) == greedy


def test_log_probs_are_the_models_own(toy):
    for seed, one in zip(SEEDS, run(toy, temperature=2.0, top_k=3), strict=True):
        given = [*one.tokens, END] if one.complete else one.tokens
        assert one.log_probs == pytest.approx(toy([]).log_probs(seed, given), rel=1e-4)


def test_suppressed_tokens_are_never_chosen_and_others_keep_their_probabilities(toy):
    model, suppressed_tokens = toy(SEEDS), [2, 3]
    constraints = Constraints(starts(len(SEEDS)), END, 10, suppressed_tokens=suppressed_tokens)
    found = sample(model.step, model, constraints, SEEDS)
    model = toy(SEEDS)
    found += greedy_search(model.step, model, constraints)
    for seed, one in zip(SEEDS + SEEDS, found, strict=True):
        assert not {*one.tokens} & {*suppressed_tokens}
        given = [*one.tokens, END] if one.complete else one.tokens
        assert one.log_probs == pytest.approx(toy([]).log_probs(seed, given), rel=1e-4)


def test_a_suppressed_token_can_be_forced(toy):
    model = toy([0])
    constraints = Constraints(starts(1), END, 10, prefix=[[2]], suppressed_tokens=[2])
    (found,) = greedy_search(model.step, model, constraints)
    assert found.tokens[0] == 2
    assert 2 not in found.tokens[1:]


def test_inverse_cdf_follows_the_probabilities():
    uniforms = (torch.arange(1000) + 0.5) / 1000
    tokens = inverse_cdf(SCORES.exp().expand(1000, -1), uniforms)
    assert tokens.bincount().tolist() == [100, 400, 200, 300]


def test_a_token_of_probability_zero_is_never_sampled():
    edges = torch.tensor([0.0, 1 - 2**-24])
    assert inverse_cdf(torch.tensor([[0.0, 0.5, 0.5, 0.0]]).expand(2, -1), edges).tolist() == [1, 2]


def test_first_tokens_are_sampled_at_their_probabilities(toy):
    found = run(toy, [3] * 4000, list(range(4000)), max_length=1)
    tokens = torch.tensor([one.tokens[0] if one.tokens else END for one in found])
    model = toy([3])
    expected = model.step(torch.tensor([START]), model).softmax(-1).squeeze(0)
    assert torch.allclose(tokens.bincount(minlength=6) / 4000, expected, atol=0.03)


def test_top_k_keeps_the_k_best():
    assert possible(keep_top_k(SCORES, 2)) == [False, True, False, True]
    assert possible(keep_top_k(SCORES, 9)) == [True] * 4


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (1e-300, [False, True, False, False]),
        (0.3, [False, True, False, False]),
        (0.5, [False, True, False, True]),
        (0.8, [False, True, True, True]),
        (0.95, [True, True, True, True]),
    ],
)
def test_top_p_keeps_the_fewest_tokens_that_sum_to_p(p, kept):
    assert possible(keep_top_p(SCORES, p)) == kept


def test_min_p_keeps_tokens_near_the_best():
    assert possible(keep_min_p(SCORES, 0.6)) == [False, True, False, True]
    assert possible(keep_min_p(SCORES, 0.2)) == [True] * 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            (
                {"temperature": wrong},
                f"temperature: {wrong} should be finite and at least 1e-06; use greedy search instead of 0",
            )
            for wrong in (0.0, -1.0, 1e-300, torch.inf, torch.nan)
        ),
        ({"top_k": 0}, "top_k: 0 should be at least 1"),
        ({"top_p": 0.0}, "top_p: 0.0 should be greater than 0 and at most 1"),
        ({"top_p": 1.5}, "top_p: 1.5 should be greater than 0 and at most 1"),
        ({"min_p": -0.1}, "min_p: -0.1 should be from 0 to 1"),
        ({"max_length": 0}, "max_length: 0 should be at least 1"),
        ({"seeds": [1]}, "seeds: 1 seeds for 30 sentences; give one each"),
    ],
)
def test_values_out_of_range_are_refused(toy, settings, message):
    with pytest.raises(SettingsError) as caught:
        run(toy, **settings)
    assert str(caught.value) == message


def test_all_values_out_of_range_are_reported_at_once(toy):
    with pytest.raises(SettingsError) as caught:
        run(toy, temperature=0.0, top_k=0, top_p=0.0, min_p=2.0)
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.1}])
def test_nan_logits_are_reported_with_their_step(toy, settings):
    model = toy([2])
    constraints = Constraints(starts(1), END, 5)
    with pytest.raises(ModelError, match=r"^step 1, sentence 1: the model's output is NaN"):
        sample(lambda tokens, _: torch.full((len(tokens), 6), torch.nan), model, constraints, [1], **settings)

"""Summaries of weights whose results are known."""

from math import log2

import pytest
import torch

from clearhead.inspection.summaries import (
    entropy,
    head_roles,
    mean_distance,
    residual_share,
    role_strengths,
    rollout,
)

POSITIONS = 8
UNIFORM = torch.full((POSITIONS, POSITIONS), 1 / POSITIONS)


def looking_back(by: int) -> torch.Tensor:
    """Weights of a head that attends `by` positions back, clamped to the first and last key."""
    keys = (torch.arange(POSITIONS) - by).clamp(0, POSITIONS - 1)
    return 0.9 * torch.nn.functional.one_hot(keys, POSITIONS).float() + 0.1 * UNIFORM


def fixed(key: int) -> torch.Tensor:
    return 0.9 * torch.nn.functional.one_hot(torch.full((POSITIONS,), key), POSITIONS).float() + 0.1 * UNIFORM


def causal_uniform() -> torch.Tensor:
    return torch.ones(POSITIONS, POSITIONS).tril() / torch.arange(1, POSITIONS + 1)[:, None]


def test_entropy_of_uniform_weights_is_the_log_of_the_number_of_keys():
    one = torch.eye(POSITIONS)
    torch.testing.assert_close(
        entropy(torch.stack([UNIFORM, one])), torch.tensor([[log2(8)], [0.0]]).expand(2, 8)
    )
    half = torch.eye(POSITIONS) / 2 + torch.eye(POSITIONS).roll(1, 1) / 2
    torch.testing.assert_close(entropy(half[None]), torch.ones(1, POSITIONS))


def test_distance_counts_positions_between_query_and_key():
    """Five queries, the last of eight keys, attend three positions back."""
    back = torch.eye(POSITIONS)[:5]
    torch.testing.assert_close(mean_distance(back[None]), torch.full((1, 5), 3.0))


@pytest.mark.parametrize(
    ("head", "role"),
    [
        (looking_back(1), "previous"),
        (looking_back(0), "self"),
        (looking_back(-1), "next"),
        (fixed(0), "first"),
        (fixed(POSITIONS - 1), "last"),
        ((looking_back(1) + looking_back(0) + looking_back(-1)) / 3, "diagonal"),
        (UNIFORM, "mixed"),
        (causal_uniform(), "mixed"),
    ],
)
def test_a_head_is_named_after_what_it_attends_to(head, role):
    [found] = head_roles(head[None])
    assert found.name == role


def test_the_strength_of_a_role_is_its_share_of_the_weight():
    [found] = head_roles(looking_back(1)[None])
    assert found.strength == pytest.approx(0.9 + 0.1 / POSITIONS)
    assert str(found) == "previous token 91%"


def test_a_query_with_a_single_visible_key_does_not_count_towards_a_role():
    """The first position of causal attention."""
    weights = fixed(0).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    assert role_strengths(weights[None])["self"] < 0.2


def test_cross_attention_to_a_longer_source_has_a_diagonal():
    keys = torch.linspace(0, 15, POSITIONS).round().long()
    weights = torch.nn.functional.one_hot(keys, 16).float()
    weights = 0.9 * weights + 0.1 / 16
    assert head_roles(weights[None], cross=True)[0].name == "diagonal"


def test_rollout_of_one_layer_is_half_its_weights_and_half_the_residual():
    weights = torch.rand(1, 2, 5, 5).softmax(-1)
    torch.testing.assert_close(rollout(weights)[0], weights[0].mean(0) / 2 + torch.eye(5) / 2)


def test_rollout_shares_sum_to_one_in_every_layer():
    weights = torch.rand(4, 3, 6, 6).softmax(-1)
    torch.testing.assert_close(rollout(weights).sum(-1), torch.ones(4, 6))


def test_residual_shares_of_both_terms_sum_to_one():
    before, added = torch.randn(2, 5, 8)
    torch.testing.assert_close(residual_share(before, added) + residual_share(added, before), torch.ones(5))
    torch.testing.assert_close(residual_share(before, -3 * before), torch.full((5,), 0.75))

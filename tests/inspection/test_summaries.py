"""What weights come to, on weights of which one knows what they should come to."""

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

PLACES = 8
EVEN = torch.full((PLACES, PLACES), 1 / PLACES)


def looking(by: int) -> torch.Tensor:
    """Weights of a head that looks so many positions back, and at the first or last key where there are none."""
    keys = (torch.arange(PLACES) - by).clamp(0, PLACES - 1)
    return 0.9 * torch.nn.functional.one_hot(keys, PLACES).float() + 0.1 * EVEN


def at(key: int) -> torch.Tensor:
    return 0.9 * torch.nn.functional.one_hot(torch.full((PLACES,), key), PLACES).float() + 0.1 * EVEN


def causal_even() -> torch.Tensor:
    return torch.ones(PLACES, PLACES).tril() / torch.arange(1, PLACES + 1)[:, None]


def test_entropy_is_the_number_of_bits_that_a_choice_among_alike_keys_has():
    one = torch.eye(PLACES)
    torch.testing.assert_close(
        entropy(torch.stack([EVEN, one])), torch.tensor([[log2(8)], [0.0]]).expand(2, 8)
    )
    half = torch.eye(PLACES) / 2 + torch.eye(PLACES).roll(1, 1) / 2
    torch.testing.assert_close(entropy(half[None]), torch.ones(1, PLACES))


def test_distance_counts_places_between_query_and_key():
    """Of five queries, the last of eight keys, each of which looks three positions back."""
    back = torch.eye(PLACES)[:5]
    torch.testing.assert_close(mean_distance(back[None]), torch.full((1, 5), 3.0))


@pytest.mark.parametrize(
    ("head", "role"),
    [
        (looking(1), "previous"),
        (looking(0), "self"),
        (looking(-1), "next"),
        (at(0), "first"),
        (at(PLACES - 1), "last"),
        ((looking(1) + looking(0) + looking(-1)) / 3, "diagonal"),
        (EVEN, "mixed"),
        (causal_even(), "mixed"),
    ],
)
def test_a_head_is_called_by_what_it_looks_at(head, role):
    [found] = head_roles(head[None])
    assert found.name == role


def test_a_role_says_how_much_of_the_weight_it_explains():
    [found] = head_roles(looking(1)[None])
    assert found.strength == pytest.approx(0.9 + 0.1 / PLACES)
    assert str(found) == "previous token 91%"


def test_a_place_that_sees_only_itself_tells_nothing_of_its_head():
    """The first position of a text that is read from left to right."""
    weights = at(0).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    assert role_strengths(weights[None])["self"] < 0.2


def test_a_longer_source_has_a_diagonal_too():
    keys = torch.linspace(0, 15, PLACES).round().long()
    weights = torch.nn.functional.one_hot(keys, 16).float()
    weights = 0.9 * weights + 0.1 / 16
    assert head_roles(weights[None], across=True)[0].name == "diagonal"


def test_rollout_of_one_layer_is_half_its_weights_and_half_the_residual():
    weights = torch.rand(1, 2, 5, 5).softmax(-1)
    torch.testing.assert_close(rollout(weights)[0], weights[0].mean(0) / 2 + torch.eye(5) / 2)


def test_rollout_shares_sum_to_one_in_every_layer():
    weights = torch.rand(4, 3, 6, 6).softmax(-1)
    torch.testing.assert_close(rollout(weights).sum(-1), torch.ones(4, 6))


def test_what_was_there_and_what_was_added_share_the_sum():
    before, added = torch.randn(2, 5, 8)
    torch.testing.assert_close(residual_share(before, added) + residual_share(added, before), torch.ones(5))
    torch.testing.assert_close(residual_share(before, -3 * before), torch.full((5,), 0.75))

"""Each score is its formula, computed for one query and one key at a time."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.layers.scores import ProductScore, make_score

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 5, 6


def dot(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    return sum(a * b for a, b in zip(q.tolist(), k.tolist(), strict=True))


def scaled(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    return dot(score, head, q, k, position) / math.sqrt(SIZE)


def general(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    return dot(score, head, score.weight[head].T @ q, k, position)


def cosine(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    angle = dot(score, head, q, k, position) / math.sqrt(
        dot(score, head, q, q, 0) * dot(score, head, k, k, 0)
    )
    return score.sharpness[head].item() * angle


def additive(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    hidden = torch.tanh(score.query[head].T @ q + score.key[head].T @ k)
    return dot(score, head, score.value[head], hidden, position)


def location(score: Any, head: int, q: Tensor, k: Tensor, position: int) -> float:
    return dot(score, head, score.weight[head, :, position], q, position)


FORMULAS = {
    "dot": dot,
    "scaled": scaled,
    "general": general,
    "cosine": cosine,
    "additive": additive,
    "location": location,
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_every_score_follows_its_formula(kind: str):
    torch.manual_seed(0)
    score = make_score(kind, HEADS, SIZE, max_positions=8)
    for parameter in score.parameters():
        torch.nn.init.normal_(parameter)
    queries, keys = torch.randn(BATCH, HEADS, QUERIES, SIZE), torch.randn(BATCH, HEADS, KEYS, SIZE)
    expected = torch.empty(BATCH, HEADS, QUERIES, KEYS)
    with torch.no_grad():
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, expected.shape)).tolist():
            expected[b, h, i, j] = FORMULAS[kind](score, h, queries[b, h, i], keys[b, h, j], j)
        torch.testing.assert_close(score(queries, keys), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", FORMULAS)
def test_four_scores_are_products_and_two_are_not(kind: str):
    product = isinstance(make_score(kind, HEADS, SIZE, max_positions=8), ProductScore)
    assert product == (kind not in {"additive", "location"})


def test_general_starts_as_scaled():
    queries, keys = torch.randn(BATCH, HEADS, QUERIES, SIZE), torch.randn(BATCH, HEADS, KEYS, SIZE)
    general, scaled = make_score("general", HEADS, SIZE, 8), make_score("scaled", HEADS, SIZE, 8)
    torch.testing.assert_close(general(queries, keys), scaled(queries, keys))


def test_a_cosine_ignores_the_norms_of_vectors():
    score = make_score("cosine", HEADS, SIZE, 8)
    queries, keys = torch.randn(BATCH, HEADS, QUERIES, SIZE), torch.randn(BATCH, HEADS, KEYS, SIZE)
    torch.testing.assert_close(score(3 * queries, keys / 7), score(queries, keys))
    assert score(queries, keys).abs().max() <= SIZE**0.5 + 1e-5


def test_location_ignores_the_keys():
    score = make_score("location", HEADS, SIZE, 8)
    queries = torch.randn(BATCH, HEADS, QUERIES, SIZE)
    one, other = torch.randn(2, BATCH, HEADS, KEYS, SIZE)
    assert torch.equal(score(queries, one), score(queries, other))


def test_scaling_keeps_the_standard_deviation_of_scores_at_any_size():
    torch.manual_seed(0)
    for size in (4, 64, 1024):
        queries, keys = torch.randn(2, 1, 1, 200, size).unbind()
        assert make_score("scaled", 1, size, 8)(queries, keys).std() == pytest.approx(1, abs=0.1)


def test_an_unknown_score_is_refused_with_the_choices():
    with pytest.raises(
        ValueError, match="'cos' is not one of dot, scaled, general, additive, cosine, location"
    ):
        make_score("cos", HEADS, SIZE, 8)

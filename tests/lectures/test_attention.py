"""The lectures' worked numbers about attention, through our layers; where a lecture errs, what is right."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.layers.attention import Attention, AttentionConfig
from clearhead.layers.embedding import Embedding
from clearhead.layers.mask import Causal, Mask
from clearhead.layers.scores import Additive, make_score

NOTHING = Mask()


def weights_of(scores: Tensor, mask: Mask = NOTHING) -> Tensor:
    """The weights that our attention computes from one head's scores."""
    seen = []

    def tap(name: str, tensor: Tensor) -> Tensor:
        if name == "scores":
            return scores[None, None]
        if name == "weights":
            seen.append(tensor[0, 0])
        return tensor

    attention = Attention(4, AttentionConfig(heads=1), max_positions=8)
    attention.tap = tap
    queries, keys = torch.zeros(1, scores.shape[0], 4), torch.zeros(1, scores.shape[1], 4)
    attention(attention.project_q(queries), attention.project_kv(keys), mask)
    return seen[0]


def scores_of(kind: str, queries: list[list[float]], keys: list[list[float]]) -> Tensor:
    score = make_score(kind, heads=1, size=len(queries[0]), max_positions=8)
    return score(torch.tensor([[queries]]).float(), torch.tensor([[keys]]).float())[0, 0]


@pytest.mark.parametrize(
    ("scores", "weights"),
    [([1.0, 0.71], [0.57, 0.43]), ([1.0, -1.0], [0.88, 0.12]), ([14.0, 12.0], [0.88, 0.12])],
)
def test_softmax_of_two_scores(scores: list[float], weights: list[float]):
    """Orange and apple; orange and motorcycle; thinking and machines."""
    assert weights_of(torch.tensor([scores]))[0].tolist() == pytest.approx(weights, abs=0.005)


def test_thinking_machines():
    """q·k is 112 and 96; divided by 8, the root of the size 64, 14 and 12; softmax 0.88 and 0.12."""
    query, keys = [[1.0] * 64], [[112 / 64] * 64, [96 / 64] * 64]
    assert scores_of("dot", query, keys).tolist() == [[112, 96]]
    scaled = scores_of("scaled", query, keys)
    assert scaled.tolist() == [[14, 12]]
    assert weights_of(scaled)[0].tolist() == pytest.approx([0.88, 0.12], abs=0.005)


def test_dot_products_of_embeddings():
    """The lecture writes (1,4)·(3,0) = 1·3 + 0·3 = 3; the sum is right, but it is of 1·3 and 4·0."""
    assert scores_of("dot", [[1, 4]], [[0, 3], [3, 0]]).tolist() == [[1 * 0 + 4 * 3, 1 * 3 + 4 * 0]]
    # The lecture's way of pairing gives the wrong sum as soon as the zero is not there.
    assert scores_of("dot", [[1, 4]], [[3, 1]]).item() == 1 * 3 + 4 * 1


@pytest.mark.parametrize("size", [2, 64, 1000])
def test_scores_are_divided_by_the_root_of_the_size(size: int):
    """The lecture divides "by the square of the length"; it is by the square root of the size."""
    query, key = [[1.0] * size], [[1.0] * size]
    assert scores_of("scaled", query, key).item() == pytest.approx(size / math.sqrt(size))
    assert scores_of("scaled", query, key).item() != pytest.approx(size / size**2)


WORDS = ["I", "closed", "the", "windows"]
EMBEDDINGS = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0]]
LECTURE = [
    [1.000, 0.000, 0.707, 0.000],
    [1.414, 1.000, 0.707, 1.414],
    [0.707, 0.707, 1.000, 1.414],
    [0.000, 1.414, 1.414, 1.000],
]
RIGHT = [
    [0.707, 0.707, 0.000, 1.414],
    [0.707, 1.414, 0.707, 1.414],
    [0.000, 0.707, 0.707, 0.000],
    [1.414, 1.414, 0.000, 2.828],
]


def test_the_table_of_i_closed_the_windows():
    """The lecture's table of q·k/√2 has ones on the diagonal and is not symmetric; ours is the product.

    So windows draws nothing from "the", being at right angles to it, and most from itself; the lecture has
    windows = 1.414 closed + 1.414 the.
    """
    scores = scores_of("scaled", EMBEDDINGS, EMBEDDINGS)
    assert scores.tolist() == [pytest.approx(row, abs=5e-4) for row in RIGHT]
    assert torch.equal(scores, scores.T)
    wrong = [
        f"{WORDS[i]}·{WORDS[j]}"
        for i in range(4)
        for j in range(4)
        if abs(LECTURE[i][j] - scores[i, j]) > 1e-3
    ]
    assert len(wrong) == 12
    assert {"I·I", "windows·the", "closed·closed", "windows·windows"} <= set(wrong)
    assert "windows·closed" not in wrong


MATRIX = torch.tensor(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
)


def test_softmax_of_the_masked_matrix():
    """The lecture cuts 0.3775 to 0.37 and 0.3156 to 0.31; rounded, as the rest, they are 0.38 and 0.32."""
    weights = weights_of(MATRIX, Causal())
    rows = [[1, 0, 0, 0], [0.38, 0.62, 0, 0], [0.26, 0.32, 0.43, 0], [0.21, 0.26, 0.26, 0.26]]
    assert weights.tolist() == [pytest.approx(row, abs=0.005) for row in rows]
    assert weights[1, 0].item() == pytest.approx(0.3775, abs=5e-5)
    assert weights[2, 1].item() == pytest.approx(0.3156, abs=5e-5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4))


def test_the_mask_may_be_added_before_or_after_the_division():
    """The lecture has (QKᵀ + M)/√d where the paper's code has QKᵀ/√d + M: the same, M being 0 or -∞."""
    queries, keys = torch.randn(2, 4, 64).tolist()
    hidden = torch.zeros(4, 4).masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), -math.inf)
    before = (scores_of("dot", queries, keys) + hidden) / math.sqrt(64)
    after = scores_of("scaled", queries, keys) + hidden
    torch.testing.assert_close(weights_of(before), weights_of(after))
    torch.testing.assert_close(weights_of(after), weights_of(scores_of("scaled", queries, keys), Causal()))


def test_the_causal_mask_hides_later_tokens():
    """Over "your cat is a lovely cat" the lecture's figure hides 3 cells, (1,2), (1,3) and (5,6), of the 15.

    Its first token could still see "a", the fourth, and its second everything.
    """
    allowed = Causal().dense(6, 6, torch.device("cpu"))
    assert allowed is not None
    hidden = {(i + 1, j + 1) for i, j in (~allowed[0, 0]).nonzero().tolist()}
    assert hidden == {(i, j) for i in range(1, 7) for j in range(i + 1, 7)}
    assert len(hidden) == 15
    assert {(1, 2), (1, 3), (5, 6)} < hidden


def test_one_hot_rows_pull_rows_of_a_matrix():
    """Rows 1000, 0001, 0010 times a matrix are its rows 1, 4, 3: so weights pull values, ids embeddings."""
    matrix = torch.tensor([[0.2, 0.9], [0.7, 0.0], [0.8, 0.3], [0.1, 0.4]])
    pulled = [[0.2, 0.9], [0.1, 0.4], [0.8, 0.3]]
    rows = torch.tensor([0, 3, 2])

    seen = []

    def tap(name: str, tensor: Tensor) -> Tensor:
        if name == "weights":
            return torch.nn.functional.one_hot(rows, 4)[None, None].float()
        if name == "head_output":
            seen.append(tensor[0, 0])
        return matrix[None, None] if name == "values" else tensor

    attention = Attention(2, AttentionConfig(heads=1), max_positions=8)
    attention.tap = tap
    attention(attention.project_q(torch.zeros(1, 3, 2)), attention.project_kv(torch.zeros(1, 4, 2)), NOTHING)
    torch.testing.assert_close(seen[0], torch.tensor(pulled))

    embedding = Embedding(4, 2, "none", max_positions=8, dropout=0.0)
    embedding.weight.data = matrix / math.sqrt(2)
    torch.testing.assert_close(embedding(rows[None])[0], torch.tensor(pulled))


def test_the_additive_score_is_one_matrix_over_both_vectors():
    """The lecture's v·tanh(W[s; h]) is our v·tanh(Wq + Uk): W and U are the two halves of its matrix."""
    torch.manual_seed(0)
    score = Additive(heads=1, size=3)
    for parameter in score.parameters():
        torch.nn.init.normal_(parameter)
    s, h = torch.randn(2, 3)
    matrix = torch.cat([score.query[0], score.key[0]])
    expected = score.value[0] @ torch.tanh(torch.cat([s, h]) @ matrix)
    torch.testing.assert_close(score(s.view(1, 1, 1, 3), h.view(1, 1, 1, 3)).squeeze(), expected)

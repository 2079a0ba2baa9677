"""Top-k and argmax by chunks equal those of torch."""

import pytest
import torch

from clearhead.decoding.topk import CHUNK, chunked_topk, most_probable


@pytest.mark.parametrize("columns", [9, 40 * CHUNK, 40 * CHUNK + 1, 41 * CHUNK - 1])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_values_and_columns_are_those_of_topk(columns, count):
    values = torch.randn(6, columns)
    values[0, -1] = 9.0
    found, expected = chunked_topk(values, count), values.topk(count)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


@pytest.mark.parametrize("columns", [7, 8 * CHUNK, 8 * CHUNK + 3])
def test_the_most_probable_token_is_the_first_of_equal_ones(columns):
    values = torch.randint(0, 3, (50, columns)).float()
    chosen = most_probable(values, torch.arange(50), 0)
    assert torch.equal(chosen, values.argmax(-1))
    assert chosen[0] == (values[0] == values[0].max()).nonzero()[0, 0]


def test_minus_infinity_everywhere_but_once_is_found():
    values = torch.full((2, 10 * CHUNK), -torch.inf)
    values[0, 777], values[1, 3] = -1.0, -2.0
    best, tokens = chunked_topk(values, 2)
    assert tokens[:, 0].tolist() == [777, 3]
    assert best[:, 1].tolist() == [-torch.inf] * 2

"""The largest numbers by way of chunks are those that torch finds."""

import pytest
import torch

from clearhead.decoding.beam import in_parents_rows
from clearhead.decoding.largest import CHUNK, largest, most_probable


@pytest.mark.parametrize("columns", [7, 40 * CHUNK, 40 * CHUNK + 1, 41 * CHUNK - 1])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_the_largest_numbers_are_those_of_topk(columns, count):
    if count > columns:
        pytest.skip("more than there are")
    values = torch.randn(6, columns)
    values[0, -1] = 9.0
    found, expected = largest(values, count), values.topk(count)
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
    best, tokens = largest(values, 2)
    assert tokens[:, 0].tolist() == [777, 3]
    assert best[:, 1].tolist() == [-torch.inf] * 2


def test_the_first_child_of_each_parent_takes_its_row():
    parents = torch.randint(0, 5, (200, 5))
    order = in_parents_rows(parents)
    assert torch.equal(order.sort(1).values, torch.arange(5).expand(200, 5))
    placed = parents.gather(1, order)
    for before, after in zip(parents.tolist(), placed.tolist(), strict=True):
        assert all(after[parent] == parent for parent in set(before))

"""The largest values of long rows equal those that torch finds."""

import pytest
import torch

from clearhead.decoding import topk
from clearhead.decoding.beam import best_candidates
from clearhead.decoding.topk import CHUNK, has_many_chunks, largest_sums, most_probable


@pytest.mark.parametrize("columns", [40 * CHUNK, 40 * CHUNK + 1, 41 * CHUNK - 1])
@pytest.mark.parametrize("count", [1, 5, 8])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_largest_sums_of_a_group_are_those_of_all_its_rows(columns, count, rows):
    values, offsets = torch.randn(4 * rows, columns), torch.randn(4, rows)
    values[0, -1], values[rows, 0] = 9.0, 9.0
    assert has_many_chunks(values, count)
    found, found_rows, found_columns = largest_sums(values, offsets, count)
    sums = (values.view(4, rows, columns) + offsets[:, :, None]).flatten(1)
    best, expected = sums.topk(count)
    assert torch.equal(found, best)
    group = torch.arange(4)[:, None]
    assert torch.equal(found_rows * columns + found_columns, group * rows * columns + expected)


def test_candidates_from_chunks_are_those_of_all_values(monkeypatch):
    log_probs, sums = torch.randn(12, 40 * CHUNK + 7).log_softmax(-1), -torch.rand(4, 3)
    sums[1, 2] = -torch.inf
    by_chunks = best_candidates(log_probs, sums, 6)
    monkeypatch.setattr(topk, "MIN_CHUNKS", 10**9)
    for ours, expected in zip(by_chunks, best_candidates(log_probs, sums, 6), strict=True):
        assert torch.equal(ours, expected)


def test_equal_sums_come_by_row_and_column():
    values, offsets = torch.full((6, 40 * CHUNK + 5), -9.0), torch.zeros(3, 2)
    for row, column in ((0, 5000), (0, 77), (1, 12), (1, -1), (0, -2)):
        values[row, column] = 1.0
    _, rows, columns = largest_sums(values, offsets, 5)
    last = 40 * CHUNK + 5
    assert rows[0].tolist() == [0, 0, 0, 1, 1]
    assert columns[0].tolist() == [77, 5000, last - 2, 12, last - 1]


@pytest.mark.parametrize("columns", [7, 8 * CHUNK, 8 * CHUNK + 3])
def test_the_most_probable_token_is_the_first_of_equal_ones(columns):
    values = torch.randint(0, 3, (50, columns)).float()
    chosen = most_probable(values, torch.arange(50), 0)
    assert torch.equal(chosen, values.argmax(-1))
    assert chosen[0] == (values[0] == values[0].max()).nonzero()[0, 0]


def test_minus_infinity_everywhere_but_once_is_found():
    values = torch.full((2, 10 * CHUNK), -torch.inf)
    values[0, 777], values[1, 3] = -1.0, -2.0
    sums, rows, columns = largest_sums(values, torch.zeros(2, 1), 2)
    assert sums.tolist() == [[-1.0, -torch.inf], [-2.0, -torch.inf]]
    assert rows.tolist() == [[0, 0], [1, 1]]
    assert columns[:, 0].tolist() == [777, 3]

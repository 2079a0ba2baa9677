"""Masks as tables; x: may attend, .: may not."""

import pytest
import torch
from torch import Tensor

from clearhead.layers.mask import Causal, KeyMask, LengthMask, Mask, Window

CPU = torch.device("cpu")


def table(*rows: str) -> Tensor:
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def full(mask: Mask, queries: int, keys: int) -> Tensor:
    """The mask for a batch of two, expanded."""
    dense = mask.dense(queries, keys, CPU)
    assert dense is not None
    return dense.expand(2, 1, queries, keys)[:, 0]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (Causal(), table("x...", "xx..", "xxx.", "xxxx")),
        (Window(0), table("x...", ".x..", "..x.", "...x")),
        (Window(1), table("xx..", "xxx.", ".xxx", "..xx")),
        (Causal() & Window(1), table("x...", "xx..", ".xx.", "..xx")),
    ],
)
def test_causal_and_window_masks(mask: Mask, expected: Tensor):
    assert torch.equal(full(mask, 4, 4)[0], expected)


@pytest.mark.parametrize("mask", [Causal(), Window(1), Causal() & Window(2)])
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_fewer_queries_are_the_last_rows_of_the_square(mask: Mask, queries: int):
    square = full(mask, 4, 4)[:, 4 - queries :]
    dense = mask.dense(queries, 4, CPU)
    last = torch.ones(2, queries, 4, dtype=torch.bool) if dense is None else dense.expand(2, 1, -1, -1)[:, 0]
    assert torch.equal(last, square)


def test_a_single_query_needs_no_causal_mask():
    assert Causal().dense(1, 9, CPU) is None


def test_the_base_mask_hides_nothing():
    assert Mask().dense(3, 4, CPU) is None
    assert (Mask() & Mask()).dense(3, 4, CPU) is None


def test_a_length_mask_hides_padding():
    long, short = full(LengthMask(torch.tensor([4, 2])), 3, 4)
    assert torch.equal(long, table("xxxx", "xxxx", "xxxx"))
    assert torch.equal(short, table("xx..", "xx..", "xx.."))


def test_a_key_mask_lists_the_visible_keys():
    keep = table("x.x.", ".xx.")
    first, second = full(KeyMask(keep), 2, 4)
    assert torch.equal(first, table("x.x.", "x.x."))
    assert torch.equal(second, table(".xx.", ".xx."))


def test_a_length_mask_equals_its_key_mask():
    lengths, keep = LengthMask(torch.tensor([4, 2])), KeyMask(table("xxxx", "xx.."))
    assert torch.equal(full(lengths, 3, 4), full(keep, 3, 4))


def test_a_conjunction_allows_what_both_masks_allow():
    both = full(Causal() & LengthMask(torch.tensor([4, 2])), 4, 4)
    assert torch.equal(both[0], table("x...", "xx..", "xxx.", "xxxx"))
    assert torch.equal(both[1], table("x...", "xx..", "xx..", "xx.."))


@pytest.mark.parametrize("mask", [Causal(), LengthMask(torch.tensor([4, 2]))])
def test_a_conjunction_with_the_base_mask_changes_nothing(mask: Mask):
    assert torch.equal(full(Mask() & mask, 4, 4), full(mask, 4, 4))
    assert torch.equal(full(mask & Mask(), 4, 4), full(mask, 4, 4))

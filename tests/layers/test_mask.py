"""Masks are rules; written out, they are these tables. x: may look, .: may not."""

import pytest
import torch
from torch import Tensor

from clearhead.layers.mask import Causal, Keep, Lengths, Mask, Window

CPU = torch.device("cpu")


def table(*rows: str) -> Tensor:
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def written(mask: Mask, queries: int, keys: int) -> Tensor:
    """The rule for a batch of two, in full."""
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
def test_rules_of_distance(mask: Mask, expected: Tensor):
    assert torch.equal(written(mask, 4, 4)[0], expected)


@pytest.mark.parametrize("mask", [Causal(), Window(1), Causal() & Window(2)])
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_fewer_queries_are_the_last_rows_of_the_square(mask: Mask, queries: int):
    square = written(mask, 4, 4)[:, 4 - queries :]
    dense = mask.dense(queries, 4, CPU)
    last = torch.ones(2, queries, 4, dtype=torch.bool) if dense is None else dense.expand(2, 1, -1, -1)[:, 0]
    assert torch.equal(last, square)


def test_the_last_place_alone_needs_no_causal_table():
    assert Causal().dense(1, 9, CPU) is None


def test_nothing_is_hidden_by_the_plain_rule():
    assert Mask().dense(3, 4, CPU) is None
    assert (Mask() & Mask()).dense(3, 4, CPU) is None


def test_lengths_hide_what_follows_the_words():
    long, short = written(Lengths(torch.tensor([4, 2])), 3, 4)
    assert torch.equal(long, table("xxxx", "xxxx", "xxxx"))
    assert torch.equal(short, table("xx..", "xx..", "xx.."))


def test_keep_names_the_keys_that_are_seen():
    keep = table("x.x.", ".xx.")
    first, second = written(Keep(keep), 2, 4)
    assert torch.equal(first, table("x.x.", "x.x."))
    assert torch.equal(second, table(".xx.", ".xx."))


def test_lengths_are_a_way_to_keep():
    lengths, keep = Lengths(torch.tensor([4, 2])), Keep(table("xxxx", "xx.."))
    assert torch.equal(written(lengths, 3, 4), written(keep, 3, 4))


def test_both_allow_what_each_allows():
    both = written(Causal() & Lengths(torch.tensor([4, 2])), 4, 4)
    assert torch.equal(both[0], table("x...", "xx..", "xxx.", "xxxx"))
    assert torch.equal(both[1], table("x...", "xx..", "xx..", "xx.."))


@pytest.mark.parametrize("mask", [Causal(), Lengths(torch.tensor([4, 2]))])
def test_the_plain_rule_adds_nothing(mask: Mask):
    assert torch.equal(written(Mask() & mask, 4, 4), written(mask, 4, 4))
    assert torch.equal(written(mask & Mask(), 4, 4), written(mask, 4, 4))

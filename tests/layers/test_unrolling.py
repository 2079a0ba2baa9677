"""A loop over positions tells taps where it is, and hands over whole sequences at its end."""

import threading

import pytest
import torch
from torch import Tensor

from clearhead.layers.unrolling import Unrolling, unrolling


def test_parts_are_put_together_along_their_axis_and_read_once():
    read: list[Tensor] = []
    whole = torch.arange(24.0).view(2, 3, 4)
    with Unrolling(4) as loop:
        for position in (2, 0, 3, 1):
            loop.position = position
            loop.add("a", whole[:, :, position : position + 1], 2, read.append)
            assert read == []
    assert len(read) == 1
    assert torch.equal(read[0], whole)


def test_a_later_direction_leaves_the_earlier_ones_as_they_are():
    read: list[Tensor] = []
    with Unrolling(1) as loop:
        for loop.direction in (0, 1):
            loop.add("a", torch.full((1, 2, 1, 3), float(loop.direction)), 2, read.append)
    assert read[0][0, :, 0, 0].tolist() == [0, 1]


def test_a_tensor_without_an_axis_of_positions_is_read_as_it_is():
    read: list[Tensor] = []
    with Unrolling(3) as loop:
        for loop.position in range(3):
            loop.add("keys", torch.ones(2, 5), None, read.append)
    assert [one.shape for one in read] == [(2, 5)]


def test_nothing_is_read_and_nothing_remains_after_an_exception():
    read: list[Tensor] = []

    def fail() -> None:
        with Unrolling(2) as loop:
            loop.add("a", torch.ones(1, 1, 3), 1, read.append)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert read == []
    assert unrolling() is None


def test_other_threads_are_in_no_loop():
    seen = []
    with Unrolling(2) as loop:
        assert unrolling() is loop
        thread = threading.Thread(target=lambda: seen.append(unrolling()))
        thread.start()
        thread.join()
    assert seen == [None]

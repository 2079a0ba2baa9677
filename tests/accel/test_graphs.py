"""A graphed step computes what the plain step does, and warm-up runs leave no trace."""

import pytest
import torch

from clearhead.accel.graphs import GraphedStep

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.accel
@pytest.mark.parametrize("device", DEVICES)
def test_each_call_advances_the_state_once(device):
    position = torch.zeros(1, device=device)

    def step() -> torch.Tensor:
        position.add_(1)
        return position * 10

    def undo() -> None:
        position.sub_(1)

    graphed = GraphedStep(torch.device(device))
    assert [graphed(step, undo).item() for _ in range(3)] == [10, 20, 30]

"""Traced modules compute what the module computes, for other shapes too."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.accel import tracing
from clearhead.accel.tracing import TracedModule

pytestmark = pytest.mark.accel


class Attend(nn.Module):
    """Writes into its input, as a decoding step writes into caches."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, keys: Tensor, position: Tensor) -> Tensor:
        keys.index_copy_(1, position, self.linear(x)[:, None])
        return (keys @ x[:, :, None]).squeeze(-1).softmax(-1)


@torch.inference_mode()
def test_a_trace_serves_every_shape(monkeypatch):
    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 2)
    module = Attend()
    traced = TracedModule(module)
    for rows, size in ((1, 4), (1, 4), (3, 4), (2, 9), (5, 16)):
        x, keys, position = torch.randn(rows, 8), torch.zeros(rows, size, 8), torch.tensor([size - 1])
        expected = keys.clone()
        wanted, found = module(x, expected, position), traced(x, keys, position)
        assert torch.equal(found, wanted)
        assert torch.equal(keys, expected)
    assert traced._traced is not None


@torch.inference_mode()
def test_a_module_that_cannot_be_traced_runs_as_it_is(monkeypatch):
    class Refuses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if torch.jit.is_tracing():
                raise RuntimeError("no")
            return x + 1

    monkeypatch.setattr(tracing, "CALLS_BEFORE_TRACING", 1)
    traced = TracedModule(Refuses())
    for _ in range(3):
        assert traced(torch.ones(2)).tolist() == [2, 2]

"""A feed-forward network uses its kernel only if no hook watches it."""

import sys
from types import SimpleNamespace

import pytest
import torch

from clearhead.accel import kernels
from clearhead.layers.feedforward import make_feedforward


@pytest.fixture
def called(monkeypatch) -> list[str]:
    """The activations that the kernel was called with, on a device that has it."""
    found: list[str] = []

    def fed(x, inner, inner_bias, outer, outer_bias, kind):
        found.append(kind)
        return x

    monkeypatch.setattr(kernels, "supports", lambda x: True)
    monkeypatch.setitem(sys.modules, "clearhead.accel.kernels.feedforward", SimpleNamespace(feedforward=fed))
    return found


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "squared_relu"])
def test_training_uses_the_kernel_unless_a_hook_watches_the_hidden_values(kind, called):
    layer, x = make_feedforward(kind, 8, 16), torch.randn(2, 3, 8)
    layer(x)
    assert called == [kind]
    seen = []
    hook = layer.get_submodule("outer").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    layer(x)
    assert seen[0].shape == (2, 3, 16)
    hook.remove()
    layer(x)
    assert called == [kind, kind]


def test_an_activation_without_a_kernel_trains_too(called):
    layer, x = make_feedforward("swish", 8, 16), torch.randn(2, 3, 8)
    layer(x).sum().backward()
    assert called == []


def test_inference_does_not_use_the_kernel(called):
    layer, x = make_feedforward("gelu", 8, 16), torch.randn(2, 3, 8)
    with torch.inference_mode():
        layer(x)
    assert called == []

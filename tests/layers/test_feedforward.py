"""A feed-forward takes the fast way only where nobody looks."""

import sys
from types import SimpleNamespace

import pytest
import torch

from clearhead.accel import kernels
from clearhead.layers.feedforward import make_feedforward


@pytest.fixture
def taken(monkeypatch) -> list[str]:
    """The activations that came to the kernels, on a device that has them."""
    found: list[str] = []

    def fed(x, inner, inner_bias, outer, outer_bias, kind):
        found.append(kind)
        return x

    monkeypatch.setattr(kernels, "supports", lambda x: True)
    monkeypatch.setitem(sys.modules, "clearhead.accel.kernels.feedforward", SimpleNamespace(feedforward=fed))
    return found


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "squared_relu"])
def test_it_trains_by_kernels_and_shows_its_hidden_values_to_whoever_looks(kind, taken):
    layer, x = make_feedforward(kind, 8, 16), torch.randn(2, 3, 8)
    layer(x)
    assert taken == [kind]
    seen = []
    hook = layer.get_submodule("outer").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    layer(x)
    assert seen[0].shape == (2, 3, 16)
    hook.remove()
    layer(x)
    assert taken == [kind, kind]


def test_it_asks_no_kernel_where_nothing_is_learned(taken):
    layer, x = make_feedforward("gelu", 8, 16), torch.randn(2, 3, 8)
    with torch.inference_mode():
        layer(x)
    assert taken == []

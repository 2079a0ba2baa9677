"""A norm takes the fast way only where nobody looks, and where there is one."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from clearhead.accel import kernels
from clearhead.layers.norm import make_norm, make_residual

WAYS_TO_LOOK = {
    "at what goes in": nn.Module.register_forward_pre_hook,
    "at what comes out": nn.Module.register_forward_hook,
    "at the gradients before": nn.Module.register_full_backward_hook,
    "at the gradients behind": nn.Module.register_full_backward_pre_hook,
}


@pytest.fixture
def taken(monkeypatch) -> list[str]:
    """The kernels that were asked, on a device that has them."""
    found: list[str] = []

    def fork(x, *settings, **kind):
        found.append("pre")
        return x, x

    def add_and_norm(x, *settings):
        found.append("post")
        return x

    monkeypatch.setattr(kernels, "supports", lambda x: True)
    monkeypatch.setitem(sys.modules, "clearhead.accel.kernels.norm", SimpleNamespace(fork=fork))
    monkeypatch.setitem(
        sys.modules, "clearhead.accel.kernels.residual", SimpleNamespace(add_and_norm=add_and_norm)
    )
    return found


@pytest.mark.parametrize("look", WAYS_TO_LOOK.values(), ids=WAYS_TO_LOOK)
@pytest.mark.parametrize("position", ["pre", "post"])
def test_it_trains_by_kernels_and_shows_itself_to_whoever_looks(position, look, taken):
    norm, x = make_norm("layer", 8), torch.randn(2, 3, 8, requires_grad=True)
    residual, seen = make_residual(position, norm, dropout=0.0), []
    residual(x, torch.sin)
    assert taken == [position]
    hook = look(norm, lambda *shown: seen.append(shown))
    residual(x, torch.sin).sum().backward()
    assert len(seen) == 1
    hook.remove()
    residual(x, torch.sin)
    assert taken == [position, position]


@pytest.mark.parametrize("position", ["pre", "post"])
def test_a_norm_of_another_kind_is_asked_itself(position, taken):
    x = torch.randn(2, 3, 8)
    assert torch.equal(make_residual(position, nn.Identity(), dropout=0.0)(x, torch.sin), x + x.sin())
    assert taken == []

"""A norm uses its kernel only if no hook watches it, and if it has one."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from clearhead.accel import kernels
from clearhead.layers.norm import make_norm, make_residual

HOOKS = {
    "input": nn.Module.register_forward_pre_hook,
    "output": nn.Module.register_forward_hook,
    "input gradients": nn.Module.register_full_backward_hook,
    "output gradients": nn.Module.register_full_backward_pre_hook,
}


@pytest.fixture
def called(monkeypatch) -> list[str]:
    """The kernels that were called, on a device that has them."""
    found: list[str] = []

    def fork(x, *settings, **kind):
        found.append("pre")
        return x, x

    def add_and_norm(x, *settings):
        found.append("post")
        return x

    monkeypatch.setattr(kernels, "supports", lambda x: True)
    fake = SimpleNamespace(fork=fork, add_and_norm=add_and_norm)
    monkeypatch.setitem(sys.modules, "clearhead.accel.kernels.norm", fake)
    return found


@pytest.mark.parametrize("register", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("position", ["pre", "post"])
def test_training_uses_the_kernel_unless_a_hook_watches_the_norm(position, register, called):
    norm, x = make_norm("layer", 8), torch.randn(2, 3, 8, requires_grad=True)
    residual, seen = make_residual(position, norm, dropout=0.0), []
    residual(x, torch.sin)
    assert called == [position]
    hook = register(norm, lambda *shown: seen.append(shown))
    residual(x, torch.sin).sum().backward()
    assert len(seen) == 1
    hook.remove()
    residual(x, torch.sin)
    assert called == [position, position]


@pytest.mark.parametrize("position", ["pre", "post"])
def test_a_norm_without_a_kernel_is_called_itself(position, called):
    x = torch.randn(2, 3, 8)
    assert torch.equal(make_residual(position, nn.Identity(), dropout=0.0)(x, torch.sin), x + x.sin())
    assert called == []

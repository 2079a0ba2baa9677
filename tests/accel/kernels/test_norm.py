"""A stream that forks into itself and its norm gets the gradients of both."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers.norm import make_norm


@pytest.mark.parametrize(("kind", "bias"), [("layer", True), ("layer", False), ("rms", False)])
@pytest.mark.parametrize("width", [24, 64, 200])
def test_a_fork_equals_the_stream_and_its_norm(device, kind, bias, width, monkeypatch):
    from clearhead.accel.kernels import norm as kernel

    monkeypatch.setattr(kernel, "PROGRAMS", 2)  # so few that each has several rows to do, the last not full
    torch.manual_seed(0)
    norm = make_norm(kind, width, bias).to(device)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(3, 77, width, device=device, requires_grad=True)
    around, gradient = torch.randn_like(x), torch.randn_like(x)
    learned = [x, *norm.parameters()]
    on, ours = kernel.fork(x, norm.weight, norm.bias if bias else None, norm.eps, kind == "layer")
    theirs = norm(x)
    torch.testing.assert_close(ours, theirs)
    assert torch.equal(on, x)
    mine = torch.autograd.grad([on, ours], learned, [around, gradient])
    others = torch.autograd.grad(theirs, learned, gradient)
    torch.testing.assert_close(mine[0], around + others[0], rtol=1e-4, atol=1e-5)
    for one, other in zip(mine[1:], others[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_fork_with_narrow_weights_is_as_exact_as_the_norm(device, kind):
    from clearhead.accel.kernels.norm import fork

    torch.manual_seed(0)
    norm = make_norm(kind, 200).to(device).half()
    x = torch.randn(5, 10, 200, device=device).half().requires_grad_()
    gradient, learned = torch.randn_like(x), [x, norm.weight]
    _, ours = fork(x, norm.weight, getattr(norm, "bias", None), norm.eps, kind == "layer")
    theirs = norm(x)
    mine, others = ([out, *torch.autograd.grad(out, learned, gradient)] for out in (ours, theirs))
    x, gradient, norm = x.detach().double().requires_grad_(), gradient.double(), norm.double()
    out = norm(x)
    exact = [out, *torch.autograd.grad(out, [x, norm.weight], gradient)]
    for one, other, right in zip(mine, others, exact, strict=True):
        assert (one - right).norm() <= 1.1 * (other - right).norm()


@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
@pytest.mark.parametrize("rows", [1, 5, 1030])
@pytest.mark.parametrize("width", [48, 512])
def test_a_norm_without_gradients_equals_torch(device, centred, rows, width):
    from clearhead.accel.kernels.norm import norm

    torch.manual_seed(0)
    x, weight, bias = torch.randn(rows, width, device=device), *torch.randn(2, width, device=device)
    if centred:
        expected = F.layer_norm(x, (width,), weight, bias, 1e-5)
        torch.testing.assert_close(norm(x, weight, None, 1e-5, True), F.layer_norm(x, (width,), weight))
    else:
        expected = F.rms_norm(x, (width,), weight, 1e-5)
    found = norm(x, weight, bias if centred else None, 1e-5, centred)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

"""A product with its activation is what the two are."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers.feedforward import gelu_tanh

pytestmark = pytest.mark.filterwarnings("ignore:overflow")  # 1 / (1 + e^x) is 0 where e^x is infinite


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("kind", "activation"), [("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", gelu_tanh)]
)
def test_a_product_with_its_activation_is_what_the_two_are(device, kind, activation, biased, monkeypatch):
    from clearhead.kernels.activation import LAUNCH, activated

    monkeypatch.setitem(LAUNCH, kind, (8, LAUNCH[kind][1]))  # so few programs that each has several tiles
    torch.manual_seed(0)
    x, weight, bias, slope = (
        torch.randn(*shape, device=device, requires_grad=True)
        for shape in ((3, 50, 8), (300, 8), (300,), (3, 50, 300))
    )
    given = (x, weight, bias) if biased else (x, weight)
    ours = activated(x, weight, bias if biased else None, kind)
    theirs = activation(F.linear(*given))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
    for mine, other in zip(*(torch.autograd.grad(out, given, slope) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "activation"), [("gelu", F.gelu), ("gelu_tanh", gelu_tanh)])
def test_gelu_is_within_a_millionth_of_the_library_from_far_below_to_far_above(device, kind, activation):
    from clearhead.kernels.activation import activated

    places = torch.linspace(-20, 20, 4001, device=device, dtype=torch.float64)
    x = places.float()[:, None].requires_grad_()
    exact = places[:, None].requires_grad_()
    ours, theirs = activated(x, torch.ones(1, 1, device=device), None, kind), activation(exact)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    mine, other = torch.autograd.grad(ours.sum(), x), torch.autograd.grad(theirs.sum(), exact)
    torch.testing.assert_close(mine[0].double(), other[0], rtol=1e-5, atol=1e-6)

"""The feed-forward kernels equal two products and the activation between them."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.layers.feedforward import gelu_tanh, squared_relu

# 1 / (1 + e^x) is 0 where e^x is infinite.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")
SMOOTH = {"gelu": F.gelu, "gelu_tanh": gelu_tanh, "squared_relu": squared_relu}
ALL = {"relu": F.relu, **SMOOTH}


@pytest.fixture(params=["tiles", "torch's products"])
def way(request, monkeypatch) -> str:
    """Both products: for GPUs whose copy engine loads tiles, and for others."""
    if request.param != "tiles":
        monkeypatch.setattr("clearhead.accel.kernels.feedforward.supports_tiles", lambda *matrices: False)
    return request.param


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kind", ALL)
def test_the_kernels_equal_the_layers_one_by_one(device, way, kind, biased):
    from clearhead.accel.kernels.feedforward import feedforward

    torch.manual_seed(0)
    # Several tiles in each direction, the last ones not full.
    shapes = (3, 50, 72), (264, 72), (264,), (40, 264), (40,), (3, 50, 40)
    exact = [torch.randn(*shape, device=device) for shape in shapes]
    narrow = [x.half().requires_grad_() for x in exact]
    wide = [x.detach().float().requires_grad_() for x in narrow]
    for given in (narrow, wide):
        given[1].data /= 8
    positions = [0, 1, 2, 3, 4] if biased else [0, 1, 3]

    def own(x, inner, inner_bias, outer, outer_bias, gradient):
        return feedforward(
            x, inner, inner_bias if biased else None, outer, outer_bias if biased else None, kind
        )

    def plain(x, inner, inner_bias, outer, outer_bias, gradient):
        ffn_width = ALL[kind](F.linear(x, inner, inner_bias if biased else None))
        return F.linear(ffn_width, outer, outer_bias if biased else None)

    ours, theirs = own(*narrow), plain(*wide)
    near(ours, theirs)
    mine = torch.autograd.grad(ours, [narrow[position] for position in positions], narrow[5])
    others = torch.autograd.grad(theirs, [wide[position] for position in positions], wide[5])
    for one, other in zip(mine, others, strict=True):
        near(one, other)


def near(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """As near as numbers with 11 bits of precision can be."""
    assert ours.shape == theirs.shape
    assert (ours.float() - theirs).norm() < 1e-3 * theirs.norm()


@pytest.mark.parametrize("kind", SMOOTH)
def test_activations_are_within_a_millionth_of_torchs_over_a_wide_range(device, kind, monkeypatch):
    from clearhead.accel.kernels.feedforward import activate

    monkeypatch.setattr("clearhead.accel.kernels.feedforward.supports_tiles", lambda *matrices: False)
    positions = torch.linspace(-20, 20, 4001, device=device, dtype=torch.float64)
    exact = positions[:, None].requires_grad_()
    ours, gradient = activate(positions.float()[:, None], torch.ones(1, 1, device=device), None, kind)
    theirs = SMOOTH[kind](exact)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-6, atol=1e-6)
    other = torch.autograd.grad(theirs.sum(), exact)[0]
    torch.testing.assert_close(gradient.double(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_weights_may_be_unaligned(device, kind):
    from clearhead.accel.kernels.feedforward import feedforward

    torch.manual_seed(0)
    odd = [torch.randn(1 + 16 * 8, device=device).half()[1:].view(shape) for shape in ((16, 8), (8, 16))]
    x = torch.randn(3, 5, 8, device=device).half().requires_grad_()
    ours, theirs = (
        feedforward(x, inner, None, outer, None, kind) for inner, outer in (odd, [w.clone() for w in odd])
    )
    near(ours, theirs.float())
    mine, others = (torch.autograd.grad(out.sum(), x)[0] for out in (ours, theirs))
    near(mine, others.float())


@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_no_rows_have_zero_gradients(device, kind):
    from clearhead.accel.kernels.feedforward import feedforward

    shapes = (2, 0, 8), (16, 8), (16,), (8, 16), (8,)
    given = [torch.randn(*shape, device=device).half().requires_grad_() for shape in shapes]
    out = feedforward(*given, kind)
    assert out.shape == shapes[0]
    assert not any(gradient.any() for gradient in torch.autograd.grad(out.sum(), given))

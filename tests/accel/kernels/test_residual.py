"""One kernel for sum, dropout and norm equals the three."""

import pytest
import torch
import torch.nn.functional as F

SHAPE = (3, 37)


def problem(width: int, device: str) -> list[torch.Tensor]:
    """x, y, weight, bias and the gradients from above."""
    torch.manual_seed(width)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    shapes = ((*SHAPE, width), (*SHAPE, width), (width,), (width,), (*SHAPE, width))
    kinds = (kind, kind, torch.float32, torch.float32, kind)
    return [
        torch.randn(shape, device=device, dtype=one, requires_grad=True)
        for shape, one in zip(shapes, kinds, strict=True)
    ]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("width", [512, 96, 1000])
def test_the_kernel_equals_sum_dropout_and_norm(device, width, dropout):
    from clearhead.accel.kernels.norm import add_and_norm

    *inputs, gradient = problem(width, device)
    out = add_and_norm(*inputs, dropout, 1e-5)
    ours = torch.autograd.grad(out, inputs, gradient)
    # Dropped numbers have no gradient; the others are scaled up.
    kept = (ours[1] != 0).double() / (1 - dropout)
    assert kept.mean().item() == pytest.approx(1.0, abs=0.05)
    x, y, weight, bias = (one.detach().double().requires_grad_() for one in inputs)
    expected = F.layer_norm(x + y * kept, (width,), weight, bias)
    theirs = torch.autograd.grad(expected, (x, y, weight, bias), gradient.double())
    for mine, other in zip((out, *ours), (expected, *theirs), strict=True):
        torch.testing.assert_close(mine.double(), other, atol=2e-2, rtol=2e-2)


def test_each_pass_drops_other_numbers_and_a_seed_repeats_them(device):
    from clearhead.accel.kernels.norm import add_and_norm

    *inputs, _ = problem(512, device)

    def two() -> list[torch.Tensor]:
        torch.manual_seed(5)
        return [add_and_norm(*inputs, 0.5, 1e-5) for _ in range(2)]

    first, again = two(), two()
    assert not torch.equal(first[0], first[1])
    assert all(torch.equal(*both) for both in zip(first, again, strict=True))

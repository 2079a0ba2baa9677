"""A product with its rectifier is what the two are."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.kernels.relu import linear_relu


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_product_with_its_rectifier_is_what_the_two_are(device):
    torch.manual_seed(0)
    x, weight, bias, slope = (
        torch.randn(*shape, device=device, dtype=torch.float64, requires_grad=True)
        for shape in ((3, 5, 8), (16, 8), (16,), (3, 5, 16))
    )
    ours, theirs = linear_relu(x, weight, bias), F.relu(F.linear(x, weight, bias))
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(
        *(torch.autograd.grad(out, (x, weight, bias), slope) for out in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, other)

"""A product with its rectifier is what the two are."""

import torch
import torch.nn.functional as F


def test_a_product_with_its_rectifier_is_what_the_two_are(device):
    from clearhead.kernels.relu import linear_relu

    torch.manual_seed(0)
    x, weight, bias, slope = (
        torch.randn(*shape, device=device, requires_grad=True)
        for shape in ((3, 50, 8), (300, 8), (300,), (3, 50, 300))
    )
    ours, theirs = linear_relu(x, weight, bias), F.relu(F.linear(x, weight, bias))
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(
        *(torch.autograd.grad(out, (x, weight, bias), slope) for out in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)

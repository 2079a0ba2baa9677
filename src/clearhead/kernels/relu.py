"""A product and the rectifier behind it: the kernel of the product applies it before it writes."""

from typing import Any

import torch
from torch import Tensor


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = torch._addmm_activation(bias, x, weight.T)  # pyright: ignore[reportPrivateImportUsage]
        ctx.save_for_backward(x, weight, out)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:
        x, weight, out = ctx.saved_tensors
        # The slope is that of the product where it came through.
        slope = torch.where(out > 0, slopes[0], 0.0)
        return slope @ weight, slope.T @ x, slope.sum(0)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(x Wᵀ + b, 0), in the type of x."""
    kind = x.dtype
    out = _LinearRelu.apply(x.flatten(0, -2), weight.to(kind), bias.to(kind))
    assert isinstance(out, Tensor)
    return out.unflatten(0, x.shape[:-1])

"""Linear layers that decode a few rows at a time on a GPU."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import kernels
from clearhead.accel.torch_private import linear_and_activation

# Up to this many rows, the products of a block take less time in total than torch's (benchmarks/README.md).
MAX_ROWS = 4


class DecodingLinear(nn.Module):
    """A linear layer without gradients; a kernel multiplies up to MAX_ROWS rows."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None
    ):
        super().__init__()
        self.register_buffer("weight", weight.detach(), persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None,
    activation: Literal["relu", "gelu_tanh"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """x Wᵀ + b for decoding; with an activation, which needs a bias, in one kernel."""
    if _is_supported(x, weight):
        from clearhead.accel.kernels.few_rows import MAX_INPUTS, multiply

        rows = x.reshape(-1, x.shape[-1])
        if 0 < len(rows) <= MAX_ROWS and rows.shape[1] <= MAX_INPUTS:
            return multiply(rows.contiguous(), weight, bias, activation).view(*x.shape[:-1], -1)
    if activation is None:
        return F.linear(x, weight, bias)
    assert bias is not None
    return linear_and_activation(x, weight, bias, activation == "gelu_tanh")


def _is_supported(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernel can multiply tensors of these kinds; its results have no gradients."""
    narrow = x.dtype in kernels.NARROW and x.dtype == weight.dtype and weight.is_contiguous()
    return narrow and not torch.is_grad_enabled() and kernels.supports_decoding(x)

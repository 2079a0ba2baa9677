"""The two products between attentions, at each position alone."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import kernels

ActivationKind = Literal["relu", "gelu", "gelu_tanh", "swiglu", "squared_relu"]


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021)."""
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by way of tanh, as GPT-2 computes it (Hendrycks and Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


# Activations that have GPU kernels to train with, by name.
KERNELS: dict[Callable[[Tensor], Tensor], str] = {
    F.relu: "relu",
    F.gelu: "gelu",
    gelu_tanh: "gelu_tanh",
    squared_relu: "squared_relu",
}


class FeedForward(nn.Module):
    """width -> hidden -> width with an activation between (Vaswani et al. 2017)."""

    def __init__(self, width: int, ffn_width: int, activation: Callable[[Tensor], Tensor], bias: bool = True):
        super().__init__()
        self.activation, self.kernel = activation, KERNELS.get(activation)
        self.inner = _linear(width, ffn_width, bias)
        self.outer = _linear(ffn_width, width, bias)

    def forward(self, x: Float[Tensor, "batch positions width"]) -> Float[Tensor, "batch positions width"]:
        inner, outer = self.inner, self.outer
        fast = torch.is_grad_enabled() and kernels.supports(x) and not kernels.has_hooks(inner, outer)
        if self.kernel and fast:
            from clearhead.accel.kernels.feedforward import feedforward

            return feedforward(x, inner.weight, inner.bias, outer.weight, outer.bias, self.kernel)
        return outer(self.activation(inner(x)))


class SwiGLU(nn.Module):
    """The hidden values are gated by a second product through swish (Shazeer 2020)."""

    def __init__(self, width: int, ffn_width: int, bias: bool = True):
        super().__init__()
        self.inner = _linear(width, ffn_width, bias)
        self.gate = _linear(width, ffn_width, bias)
        self.outer = _linear(ffn_width, width, bias)

    def forward(self, x: Float[Tensor, "batch positions width"]) -> Float[Tensor, "batch positions width"]:
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


def make_feedforward(kind: ActivationKind, width: int, ffn_width: int, bias: bool = True) -> nn.Module:
    match kind:
        case "relu":
            return FeedForward(width, ffn_width, F.relu, bias)
        case "gelu":
            return FeedForward(width, ffn_width, F.gelu, bias)
        case "gelu_tanh":
            return FeedForward(width, ffn_width, gelu_tanh, bias)
        case "squared_relu":
            return FeedForward(width, ffn_width, squared_relu, bias)
        case "swiglu":
            return SwiGLU(width, ffn_width, bias)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    linear = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear

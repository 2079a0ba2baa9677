"""The feed-forward network of a block, applied at each position alone."""

from collections.abc import Callable
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import enabled, kernels
from clearhead.accel.few_rows import DecodingLinear, linear
from clearhead.layers.choices import OneOf

Activation = Callable[[Tensor], Tensor]
Stream = Float[Tensor, "batch positions width"]


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021)."""
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU with the tanh approximation, as in GPT-2 (Hendrycks and Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "squared_relu": squared_relu,
    "swish": F.silu,  # Ramachandran et al. 2017
}
"""The activation of a `FeedForward` by name; add your own to use it in settings."""
# Activations with GPU kernels for training; the kernels have their own names for them.
KERNELS: dict[Activation, str] = {
    ACTIVATIONS[name]: name for name in ("relu", "gelu", "gelu_tanh", "squared_relu")
}
# Activations that a GPU's matrix product applies to its own result.
FUSED = ("relu", "gelu_tanh")


class FeedForward(nn.Module):
    """width -> ffn_width -> width with an activation between (Vaswani et al. 2017)."""

    def __init__(self, width: int, ffn_width: int, activation: Activation, bias: bool = True):
        super().__init__()
        self.activation, self.kernel = activation, KERNELS.get(activation)
        self.inner = _linear(width, ffn_width, bias)
        self.outer = _linear(ffn_width, width, bias)

    def forward(self, x: Stream) -> Stream:
        inner, outer = self.inner, self.outer
        fast = torch.is_grad_enabled() and kernels.supports(x) and not kernels.has_hooks(inner, outer)
        if self.kernel and fast:
            from clearhead.accel.kernels.feedforward import feedforward

            return feedforward(x, inner.weight, inner.bias, outer.weight, outer.bias, self.kernel)
        if self._is_fusable(x):
            return outer(linear(x, inner.weight, inner.bias, self.kernel))  # pyright: ignore
        return outer(self.activation(inner(x)))

    def _is_fusable(self, x: Stream) -> bool:
        """Whether the GPU's matrix product can apply the activation: while decoding, in one precision."""
        inner = self.inner
        if not x.is_cuda or torch.is_grad_enabled() or torch.is_autocast_enabled("cuda") or not enabled():
            return False
        # Not isinstance: a subclass may compute something else.
        is_plain = type(inner) in (nn.Linear, DecodingLinear) and inner.bias is not None
        return (
            is_plain
            and not kernels.has_hooks(inner)
            and self.kernel in FUSED
            and x.dtype == inner.weight.dtype
        )


class SwiGLU(nn.Module):
    """A feed-forward network whose hidden values are gated through swish (Shazeer 2020)."""

    def __init__(self, width: int, ffn_width: int, bias: bool = True):
        super().__init__()
        self.inner = _linear(width, ffn_width, bias)
        self.gate = _linear(width, ffn_width, bias)
        self.outer = _linear(ffn_width, width, bias)

    def forward(self, x: Stream) -> Stream:
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


GATED: dict[str, Callable[[int, int, bool], nn.Module]] = {"swiglu": SwiGLU}
"""What makes each gated network from (width, ffn_width, bias); add your own to use it in settings."""
ActivationKind = Annotated[str, OneOf(ACTIVATIONS, GATED)]


def make_feedforward(kind: str, width: int, ffn_width: int, bias: bool = True) -> nn.Module:
    OneOf(ACTIVATIONS, GATED).check(kind)
    if kind in GATED:
        return GATED[kind](width, ffn_width, bias)
    return FeedForward(width, ffn_width, ACTIVATIONS[kind], bias)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    linear = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear

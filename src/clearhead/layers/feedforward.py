"""The two products between attentions, at each place alone."""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead import kernels
from clearhead.kernels.relu import linear_relu

ActivationKind = Literal["relu", "gelu", "swiglu", "squared_relu"]


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021)."""
    return F.relu(x).square()


class FeedForward(nn.Module):
    """width -> hidden -> width with an activation between (Vaswani et al. 2017)."""

    def __init__(self, width: int, hidden: int, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.activation = activation
        self.inner = _linear(width, hidden)
        self.outer = _linear(hidden, width)

    def forward(self, x: Float[Tensor, "batch places width"]) -> Float[Tensor, "batch places width"]:
        if self.activation is F.relu and kernels.serve(x):
            return self.outer(linear_relu(x, self.inner.weight, self.inner.bias))
        return self.outer(self.activation(self.inner(x)))


class SwiGLU(nn.Module):
    """The hidden values are gated by a second product through swish (Shazeer 2020)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = _linear(width, hidden)
        self.gate = _linear(width, hidden)
        self.outer = _linear(hidden, width)

    def forward(self, x: Float[Tensor, "batch places width"]) -> Float[Tensor, "batch places width"]:
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


def make_feedforward(kind: ActivationKind, width: int, hidden: int) -> nn.Module:
    match kind:
        case "relu":
            return FeedForward(width, hidden, F.relu)
        case "gelu":
            return FeedForward(width, hidden, F.gelu)
        case "squared_relu":
            return FeedForward(width, hidden, squared_relu)
        case "swiglu":
            return SwiGLU(width, hidden)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear

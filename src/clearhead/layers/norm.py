"""Normalisation, and the two positions it can have around a sub-layer."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import kernels

# The longest rows that a program of a kernel can hold.
WIDEST = 4096
NormKind = Literal["layer", "rms"]
NormPosition = Literal["post", "pre"]
Stream = Float[Tensor, "batch positions width"]


class LayerNorm(nn.LayerNorm):
    """Ba et al. 2016; computes in the precision of its weights and gives that of the stream."""

    def forward(self, input: Stream) -> Stream:
        return super().forward(input.to(self.weight.dtype)).to(input.dtype)


class RMSNorm(nn.RMSNorm):
    """Zhang and Sennrich 2019; computes in the precision of its weights and gives that of the stream."""

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


EPSILONS: dict[NormKind, float] = {"layer": 1e-5, "rms": 1e-6}


def make_norm(kind: NormKind, width: int, bias: bool = True, epsilon: float | None = None) -> nn.Module:
    epsilon = epsilon or EPSILONS[kind]
    return LayerNorm(width, epsilon, bias=bias) if kind == "layer" else RMSNorm(width, epsilon)


class PostNorm(nn.Module):
    """norm(x + f(x)), as in the paper (Vaswani et al. 2017)."""

    def __init__(self, norm: nn.Module, dropout: float):
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x: Stream, sublayer: Callable[[Stream], Stream]) -> Stream:
        dropout = self.dropout if self.training else 0.0
        norm = self.norm
        if isinstance(norm, LayerNorm) and norm.bias is not None and _has_kernels(norm, x):
            return self._in_one(x, sublayer, norm, dropout)
        return self.norm(x + F.dropout(sublayer(x), dropout))

    def _in_one(
        self, x: Stream, sublayer: Callable[[Stream], Stream], norm: LayerNorm, dropout: float
    ) -> Stream:
        from clearhead.accel.kernels.residual import add_and_norm

        # It parts as a matrix: what comes back through the sublayer's product is then added by that product.
        matrix = x.flatten(0, -2)
        y = sublayer(matrix.view_as(x)).to(x.dtype).flatten(0, -2)
        return add_and_norm(matrix, y, norm.weight, norm.bias, dropout, norm.eps).view_as(x)


class PreNorm(nn.Module):
    """x + f(norm(x)): the stream itself is never normalised, so deep stacks train (Xiong et al. 2020)."""

    def __init__(self, norm: nn.Module, dropout: float):
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x: Stream, sublayer: Callable[[Stream], Stream]) -> Stream:
        x, normed = self._fork(x)
        return x + F.dropout(sublayer(normed), self.dropout, self.training)

    def _fork(self, x: Stream) -> tuple[Stream, Stream]:
        """The stream, and what the sublayer gets of it."""
        norm = self.norm
        if torch.is_grad_enabled() and _has_kernels(norm, x):
            from clearhead.accel.kernels.norm import fork

            if isinstance(norm, LayerNorm):
                return fork(x, norm.weight, norm.bias, norm.eps, centred=True)
            if isinstance(norm, RMSNorm) and norm.eps is not None:
                return fork(x, norm.weight, None, norm.eps, centred=False)
        return x, norm(x)


def _has_kernels(norm: nn.Module, x: Stream) -> bool:
    """Whether kernels serve such a stream, and nobody looks at the norm that they stand in for."""
    return kernels.supports(x) and x.shape[-1] <= WIDEST and not kernels.has_hooks(norm)


def make_residual(position: NormPosition, norm: nn.Module, dropout: float) -> PostNorm | PreNorm:
    return PostNorm(norm, dropout) if position == "post" else PreNorm(norm, dropout)

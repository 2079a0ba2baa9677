"""Normalisation, and the two places it can have around a sub-layer."""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

NormKind = Literal["layer", "rms"]
NormPlace = Literal["post", "pre"]
Stream = Float[Tensor, "batch places width"]


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
        return self.norm(x + F.dropout(sublayer(x), self.dropout, self.training))


class PreNorm(nn.Module):
    """x + f(norm(x)): the stream itself is never normalised, so deep stacks train (Xiong et al. 2020)."""

    def __init__(self, norm: nn.Module, dropout: float):
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x: Stream, sublayer: Callable[[Stream], Stream]) -> Stream:
        return x + F.dropout(sublayer(self.norm(x)), self.dropout, self.training)


def make_residual(place: NormPlace, norm: nn.Module, dropout: float) -> PostNorm | PreNorm:
    return PostNorm(norm, dropout) if place == "post" else PreNorm(norm, dropout)

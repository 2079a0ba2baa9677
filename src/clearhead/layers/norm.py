"""Normalisation, and the residual connections around a sublayer."""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import kernels
from clearhead.layers.choices import OneOf, choose

# The widest rows that a kernel holds in one program.
MAX_KERNEL_WIDTH = 4096
NormPosition = Literal["post", "pre"]
Stream = Float[Tensor, "batch positions width"]
Sublayer = Callable[[Stream], Stream]


class LayerNorm(nn.LayerNorm):
    """LayerNorm (Ba et al. 2016) in the precision of its weights; the result has the input's type."""

    def forward(self, input: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        if _uses_kernel(input):
            from clearhead.accel.kernels.norm import norm

            return norm(input, self.weight, self.bias, self.eps, centred=True)
        return super().forward(input.to(self.weight.dtype)).to(input.dtype)


class RMSNorm(nn.RMSNorm):
    """RMSNorm (Zhang and Sennrich 2019) in the precision of its weights; the result has the input's type."""

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        if self.eps is not None and _uses_kernel(x):
            from clearhead.accel.kernels.norm import norm

            return norm(x, self.weight, None, self.eps, centred=False)
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


def _uses_kernel(x: Tensor) -> bool:
    """Whether a kernel normalises these rows: without gradients. It is faster than torch for few rows."""
    return not torch.is_grad_enabled() and kernels.supports(x) and x.shape[-1] <= MAX_KERNEL_WIDTH


NORMS: dict[str, Callable[[int, bool, float | None], nn.Module]] = {
    "layer": lambda width, bias, epsilon: LayerNorm(width, epsilon or 1e-5, bias=bias),
    "rms": lambda width, bias, epsilon: RMSNorm(width, epsilon or 1e-6),
}
"""What makes each norm from (width, bias, epsilon or None); add your own to use it in settings."""
NormKind = Annotated[str, OneOf(NORMS)]


def make_norm(kind: str, width: int, bias: bool = True, epsilon: float | None = None) -> nn.Module:
    return choose(NORMS, kind)(width, bias, epsilon)


class Residual(nn.Module):
    """A residual connection around a sublayer, with a norm and dropout."""

    def __init__(self, norm: nn.Module, dropout: float):
        super().__init__()
        self.norm, self.dropout = norm, dropout


class PostNorm(Residual):
    """norm(x + f(x)), the original form (Vaswani et al. 2017)."""

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        norm, dropout = self.norm, self.dropout if self.training else 0.0
        if isinstance(norm, LayerNorm) and norm.bias is not None and _has_kernels(norm, x):
            return self._fused(x, sublayer, norm, dropout)
        y = sublayer(x)
        return norm(x + (F.dropout(y, dropout) if dropout else y))

    def _fused(self, x: Stream, sublayer: Sublayer, norm: LayerNorm, dropout: float) -> Stream:
        from clearhead.accel.kernels.norm import add_and_norm

        # The stream forks as a matrix, so that the sublayer's backward product adds up both gradients.
        matrix = x.flatten(0, -2)
        y = sublayer(matrix.view_as(x)).to(x.dtype).flatten(0, -2)
        return add_and_norm(matrix, y, norm.weight, norm.bias, dropout, norm.eps).view_as(x)


class PreNorm(Residual):
    """x + f(norm(x)): the stream itself is never normalised, so deep stacks train (Xiong et al. 2020)."""

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        x, normed = self._fork(x)
        y = sublayer(normed)
        return x + (F.dropout(y, self.dropout) if self.training else y)

    def _fork(self, x: Stream) -> tuple[Stream, Stream]:
        """The stream and its normalised copy for the sublayer."""
        norm = self.norm
        if torch.is_grad_enabled() and _has_kernels(norm, x):
            from clearhead.accel.kernels.norm import fork

            if isinstance(norm, LayerNorm):
                return fork(x, norm.weight, norm.bias, norm.eps, centred=True)
            if isinstance(norm, RMSNorm) and norm.eps is not None:
                return fork(x, norm.weight, None, norm.eps, centred=False)
        return x, norm(x)


def _has_kernels(norm: nn.Module, x: Stream) -> bool:
    """Whether a kernel may replace this norm: it supports the stream, and no hook watches the norm."""
    return kernels.supports(x) and x.shape[-1] <= MAX_KERNEL_WIDTH and not kernels.has_hooks(norm)


def make_residual(position: NormPosition, norm: nn.Module, dropout: float) -> Residual:
    return PostNorm(norm, dropout) if position == "post" else PreNorm(norm, dropout)

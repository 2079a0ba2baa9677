"""A product and the activation behind it, in as few passes as there are: one kernel each way at most.

GELU by erf takes erf from e^(-x²/2) and a polynomial, within 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26): a
library's erf and tanh take longer than the memory does.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows of a column of tiles, each with sums of its own, and how many rows a tile has.
# Measured.
LAUNCH: dict[str, tuple[int, int]] = {"relu": (132, 8), "gelu": (264, 4), "gelu_tanh": (264, 4)}
COLUMNS, TILE = 256, 2048
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _bell(x):
    """Φ(x), how much of a normal distribution lies below x, and e^(-x²/2)."""
    bell = tl.exp2(x * x * (-0.5 * LOG2E))
    t = 1.0 / (1.0 + 0.2316418882 * tl.abs(x))  # 0.3275911 / √2
    steep = (0.5307027145 * t - 0.726576013) * t + 0.7107068705
    beyond = ((steep * t - 0.142248368) * t + 0.127414796) * t * bell
    return tl.where(x > 0, 1.0 - beyond, beyond), bell


@triton.jit
def _bend(x):
    """By what GELU by tanh(u) multiplies x, 1 / (1 + e^(-2u)), and the slope of 2u."""
    square = x * x
    slope = 1.5957691216 + 0.2140644488 * square  # 2 √(2/π), and 3 · 0.044715 times that
    twice = x * (1.5957691216 + 0.0713548163 * square)
    return 1.0 / (1.0 + tl.exp2(twice * (-1.0 * LOG2E))), slope


@triton.jit
def _forward(before, result, count, kind: tl.constexpr, tile: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    x = tl.load(before + where, mask=where < count).to(tl.float32)
    if kind == "gelu":
        share, _ = _bell(x)
    else:
        share, _ = _bend(x)
    tl.store(result + where, (x * share).to(result.dtype.element_ty), mask=where < count)


@triton.jit
def _backward(
    kept, slope, result, sums, count,
    kind: tl.constexpr, width: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    total = tl.zeros((rows, columns), tl.float32)
    for first in tl.range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        there = (row < count)[:, None] & (column < width)[None, :]
        where = row.to(tl.int64)[:, None] * width + column[None, :]
        x = tl.load(kept + where, mask=there, other=0.0).to(tl.float32)
        here = tl.load(slope + where, mask=there, other=0.0).to(tl.float32)
        if kind == "relu":
            here = tl.where(x > 0, here, 0.0)
        elif kind == "gelu":
            share, bell = _bell(x)
            here *= share + x * bell * 0.3989422804  # 1 / √(2π)
        else:
            share, steep = _bend(x)
            here *= share + x * share * (1.0 - share) * steep
        total += here
        tl.store(result + where, here.to(result.dtype.element_ty), mask=there)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=column < width)


@torch.library.custom_op("clearhead::activated", mutates_args=())
def _activated(before: Tensor, kind: str) -> Tensor:
    before = before.contiguous()
    result = torch.empty_like(before)
    grid = (triton.cdiv(before.numel(), TILE),)
    _forward[grid](before, result, before.numel(), kind, TILE)  # pyright: ignore[reportIndexIssue]
    return result


@_activated.register_fake
def _(before: Tensor, kind: str) -> Tensor:
    return torch.empty_like(before, memory_format=torch.contiguous_format)


@torch.library.custom_op("clearhead::activation_slope", mutates_args=())
def _activation_slope(kept: Tensor, slope: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """The slope before the activation; and its sums, (programs, width), to be summed."""
    kept, slope = kept.contiguous(), slope.contiguous()
    (count, width), (programs, rows) = kept.shape, LAUNCH[kind]
    result, sums = torch.empty_like(kept), kept.new_empty(programs, width, dtype=torch.float32)
    _backward[programs, triton.cdiv(width, COLUMNS)](  # pyright: ignore[reportIndexIssue]
        kept, slope, result, sums, count, kind, width, rows, COLUMNS
    )
    return result, sums


@_activation_slope.register_fake
def _(kept: Tensor, slope: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    like = torch.empty_like(kept, memory_format=torch.contiguous_format)
    return like, kept.new_empty(LAUNCH[kind][0], kept.shape[1], dtype=torch.float32)


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kind: str) -> Tensor:
        if kind == "relu" and bias is not None:
            # What came out tells the way back where something came through.
            kept = out = torch._addmm_activation(bias, x, weight.T)  # pyright: ignore[reportPrivateImportUsage]
        else:
            kept = F.linear(x, weight, bias)
            out = F.relu(kept) if kind == "relu" else _activated(kept, kind)
        ctx.save_for_backward(x, weight, kept)
        ctx.kind, ctx.biased = kind, bias is not None
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, kept = ctx.saved_tensors
        slope, sums = _activation_slope(kept, slopes[0], ctx.kind)
        return slope @ weight, slope.T @ x, sums.sum(0).to(weight.dtype) if ctx.biased else None, None


def activated(x: Tensor, weight: Tensor, bias: Tensor | None, kind: str) -> Tensor:
    """The activation of x Wᵀ + b, in the type of x; its kind is one of LAUNCH."""
    narrow = bias if bias is None else bias.to(x.dtype)
    out = _Activated.apply(x.flatten(0, -2), weight.to(x.dtype), narrow, kind)
    assert isinstance(out, Tensor)
    return out.unflatten(0, x.shape[:-1])

"""norm(x + dropout(y)) in one kernel each way: every number is read once and written once.

Random numbers are sampled four at a time, and again in the backward pass, so no mask is stored. The compiler
samples each by itself, which takes longer than the memory access.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows in the backward pass, each with its own sums for weight and bias.
PROGRAMS = 1056


@triton.jit
def _dropout_factor(seed, row, dropout, rows: tl.constexpr, tile: tl.constexpr):
    """The dropout factor of each number of y: 0 or 1 / (1 - dropout)."""
    position = row[:, None] * (tile // 4) + tl.arange(0, tile // 4)[None, :]
    a, b, c, d = tl.rand4x(seed, position)
    sampled = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (rows, tile))
    return tl.where(sampled < dropout, 0.0, 1 / (1 - dropout))


@triton.jit
def _normed(x, y, factor, valid, eps, width: tl.constexpr):
    """The normalised sum, and the inverse of its standard deviation."""
    total = x.to(tl.float32) + y.to(tl.float32) * factor
    centred = tl.where(valid, total - tl.sum(total, 1)[:, None] / width, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / width + eps)
    return centred * inverse[:, None], inverse


@triton.jit
def _forward(
    x_base, y_base, weight, bias, seed, out, count, dropout, eps,
    width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, tile)
    valid = (row < count)[:, None] & (column < width)[None, :]
    at = row.to(tl.int64)[:, None] * width + column[None, :]
    x = tl.load(x_base + at, mask=valid, other=0.0)
    y = tl.load(y_base + at, mask=valid, other=0.0)
    factor = _dropout_factor(tl.load(seed), row, dropout, rows, tile) if drops else 1.0
    normed, _ = _normed(x, y, factor, valid, eps, width)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    b = tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(out + at, (normed * w[None, :] + b[None, :]).to(out.dtype.element_ty), mask=valid)


@triton.jit
def _backward(
    gradient_base, x_base, y_base, weight, seed, x_gradient, y_gradient, sums, count, dropout, eps,
    width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, tile)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    weight_sum = tl.zeros((rows, tile), tl.float32)
    bias_sum = tl.zeros((rows, tile), tl.float32)
    for first in range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        valid = (row < count)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        x = tl.load(x_base + at, mask=valid, other=0.0)
        y = tl.load(y_base + at, mask=valid, other=0.0)
        gradient = tl.load(gradient_base + at, mask=valid, other=0.0).to(tl.float32)
        factor = _dropout_factor(tl.load(seed), row, dropout, rows, tile) if drops else 1.0
        normed, inverse = _normed(x, y, factor, valid, eps, width)
        weight_sum += gradient * normed
        bias_sum += gradient
        inner = gradient * w[None, :]
        along = tl.sum(inner * normed, 1) / width
        mean = tl.sum(inner, 1) / width
        sum_gradient = (inner - normed * along[:, None] - mean[:, None]) * inverse[:, None]
        tl.store(x_gradient + at, sum_gradient.to(x_gradient.dtype.element_ty), mask=valid)
        tl.store(y_gradient + at, (sum_gradient * factor).to(y_gradient.dtype.element_ty), mask=valid)
    own = sums + tl.program_id(0) * 2 * width + column
    tl.store(own, tl.sum(weight_sum, 0), mask=column < width)
    tl.store(own + width, tl.sum(bias_sum, 0), mask=column < width)


def add_and_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, dropout: float, eps: float) -> Tensor:
    """norm(x + dropout(y))."""
    seed = torch.randint(1 << 31, (1,), device=x.device, dtype=torch.int64) if dropout else x.new_zeros(1)
    return _add_and_norm(x, y, weight, bias, seed, dropout, eps)


@torch.library.custom_op("clearhead::add_and_norm", mutates_args=())
def _add_and_norm(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, seed: Tensor, dropout: float, eps: float
) -> Tensor:
    x, y = x.contiguous(), y.contiguous()
    out, (count, width, tile) = torch.empty_like(x), _shape(x)
    rows = max(1, 2048 // tile)
    _forward[(triton.cdiv(count, rows),)](  # pyright: ignore[reportIndexIssue]
        x, y, weight, bias, seed, out, count, dropout, eps, width, tile, rows, dropout > 0
    )
    return out


@_add_and_norm.register_fake
def _(x: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("clearhead::add_and_norm_backwards", mutates_args=())
def _add_and_norm_backward(
    gradient: Tensor, x: Tensor, y: Tensor, weight: Tensor, seed: Tensor, dropout: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x and y, and those of weight and bias, (programs, 2, width), to be summed."""
    gradient, x, y = gradient.contiguous(), x.contiguous(), y.contiguous()
    gradients, (count, width, tile) = _empty_gradients(x), _shape(x)
    rows = max(1, 1024 // tile)
    _backward[(PROGRAMS,)](  # pyright: ignore[reportIndexIssue]
        gradient, x, y, weight, seed, *gradients, count, dropout, eps, width, tile, rows, dropout > 0,
        num_warps=max(2, tile // 512),
    )  # fmt: skip
    return gradients


@_add_and_norm_backward.register_fake
def _(gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_gradients(x)


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, y, weight, _, seed, ctx.dropout, ctx.eps = inputs
    ctx.save_for_backward(x, y, weight, seed)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x_gradient, y_gradient, sums = _add_and_norm_backward(gradient, *ctx.saved_tensors, ctx.dropout, ctx.eps)
    weight, bias = sums.sum(0).to(ctx.saved_tensors[2].dtype)
    return x_gradient, y_gradient, weight, bias, None, None, None


_add_and_norm.register_autograd(_differentiate, setup_context=_save)


def _empty_gradients(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x_gradient, y_gradient = (torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2))
    return x_gradient, y_gradient, x.new_empty(PROGRAMS, 2, x.shape[-1], dtype=torch.float32)


def _shape(x: Tensor) -> tuple[int, int, int]:
    """The number of rows, their width, and the width of a tile."""
    width = x.shape[-1]
    return x.numel() // width, width, max(64, triton.next_power_of_2(width))

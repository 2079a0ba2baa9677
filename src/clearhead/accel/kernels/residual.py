"""norm(x + dropout(y)) in one GPU kernel each way: every number is read once and written once.

Chance is drawn four numbers at a time and drawn again backwards, so no mask is kept. A compiler draws each
number by itself, and that takes longer than the memory does.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows backwards: each has sums of its own for weight and bias.
PROGRAMS = 1056


@triton.jit
def _kept(seed, row, dropout, rows: tl.constexpr, tile: tl.constexpr):
    """What each number of y is multiplied with: 0, or so much that the mean stays."""
    position = row[:, None] * (tile // 4) + tl.arange(0, tile // 4)[None, :]
    a, b, c, d = tl.rand4x(seed, position)
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (rows, tile))
    return tl.where(drawn < dropout, 0.0, 1 / (1 - dropout))


@triton.jit
def _normed(x, y, factor, there, eps, width: tl.constexpr):
    """The normalised sum, and by what it was divided."""
    total = x.to(tl.float32) + y.to(tl.float32) * factor
    centred = tl.where(there, total - tl.sum(total, 1)[:, None] / width, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / width + eps)
    return centred * inverse[:, None], inverse


@triton.jit
def _forward(
    x_base, y_base, weight, bias, seed, out, count, dropout, eps,
    width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, tile)
    there = (row < count)[:, None] & (column < width)[None, :]
    where = row.to(tl.int64)[:, None] * width + column[None, :]
    x = tl.load(x_base + where, mask=there, other=0.0)
    y = tl.load(y_base + where, mask=there, other=0.0)
    factor = _kept(tl.load(seed), row, dropout, rows, tile) if drops else 1.0
    normed, _ = _normed(x, y, factor, there, eps, width)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    b = tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(out + where, (normed * w[None, :] + b[None, :]).to(out.dtype.element_ty), mask=there)


@triton.jit
def _backward(
    slope_base, x_base, y_base, weight, seed, x_slope, y_slope, sums, count, dropout, eps,
    width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, tile)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    weight_sum = tl.zeros((rows, tile), tl.float32)
    bias_sum = tl.zeros((rows, tile), tl.float32)
    for first in range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        there = (row < count)[:, None] & (column < width)[None, :]
        where = row.to(tl.int64)[:, None] * width + column[None, :]
        x = tl.load(x_base + where, mask=there, other=0.0)
        y = tl.load(y_base + where, mask=there, other=0.0)
        gradient = tl.load(slope_base + where, mask=there, other=0.0).to(tl.float32)
        factor = _kept(tl.load(seed), row, dropout, rows, tile) if drops else 1.0
        normed, inverse = _normed(x, y, factor, there, eps, width)
        weight_sum += gradient * normed
        bias_sum += gradient
        inner = gradient * w[None, :]
        along = tl.sum(inner * normed, 1) / width
        mean = tl.sum(inner, 1) / width
        sum_slope = (inner - normed * along[:, None] - mean[:, None]) * inverse[:, None]
        tl.store(x_slope + where, sum_slope.to(x_slope.dtype.element_ty), mask=there)
        tl.store(y_slope + where, (sum_slope * factor).to(y_slope.dtype.element_ty), mask=there)
    mine = sums + tl.program_id(0) * 2 * width + column
    tl.store(mine, tl.sum(weight_sum, 0), mask=column < width)
    tl.store(mine + width, tl.sum(bias_sum, 0), mask=column < width)


def add_and_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, dropout: float, eps: float) -> Tensor:
    """Layer normalisation of x plus y, some of whose numbers are dropped."""
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
def _backwards(
    gradient: Tensor, x: Tensor, y: Tensor, weight: Tensor, seed: Tensor, dropout: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients at x and y; and those at weight and bias, (programs, 2, width), to be summed."""
    gradient, x, y = gradient.contiguous(), x.contiguous(), y.contiguous()
    gradients, (count, width, tile) = _slopes(x), _shape(x)
    rows = max(1, 1024 // tile)
    _backward[(PROGRAMS,)](  # pyright: ignore[reportIndexIssue]
        gradient, x, y, weight, seed, *gradients, count, dropout, eps, width, tile, rows, dropout > 0,
        num_warps=max(2, tile // 512),
    )  # fmt: skip
    return gradients


@_backwards.register_fake
def _(gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _slopes(x)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, y, weight, _, seed, ctx.dropout, ctx.eps = inputs
    ctx.save_for_backward(x, y, weight, seed)


def _derive(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x_slope, y_slope, sums = _backwards(gradient, *ctx.saved_tensors, ctx.dropout, ctx.eps)
    weight, bias = sums.sum(0).to(ctx.saved_tensors[2].dtype)
    return x_slope, y_slope, weight, bias, None, None, None


_add_and_norm.register_autograd(_derive, setup_context=_keep)


def _slopes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    like = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2)]
    return like[0], like[1], x.new_empty(PROGRAMS, 2, x.shape[-1], dtype=torch.float32)


def _shape(x: Tensor) -> tuple[int, int, int]:
    """How many rows there are, how wide, and how wide the tile is that they lie in."""
    width = x.shape[-1]
    return x.numel() // width, width, max(64, triton.next_power_of_2(width))

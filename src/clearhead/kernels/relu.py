"""A product and the rectifier behind it, in as few passes as there are: one forwards, one before the products
that go back."""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows of a column of tiles: each has sums of its own. Measured.
PROGRAMS, ROWS, COLUMNS = 132, 8, 256


@triton.jit
def _rectify(
    out, slope, result, sums, count, width: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    total = tl.zeros((rows, columns), tl.float32)
    for first in tl.range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows):
        row = first + tl.arange(0, rows)
        there = (row < count)[:, None] & (column < width)[None, :]
        where = row.to(tl.int64)[:, None] * width + column[None, :]
        passed = tl.load(out + where, mask=there, other=0.0) > 0
        here = tl.where(passed, tl.load(slope + where, mask=there, other=0.0), 0.0)
        total += here.to(tl.float32)
        tl.store(result + where, here, mask=there)
    tl.store(sums + tl.program_id(0) * width + column, tl.sum(total, 0), mask=column < width)


@torch.library.custom_op("clearhead::rectified_slope", mutates_args=())
def _rectified_slope(out: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The slope where something came through; and its sums, (programs, width), to be summed."""
    out, slope = out.contiguous(), slope.contiguous()
    count, width = out.shape
    result, sums = torch.empty_like(out), out.new_empty(PROGRAMS, width, dtype=torch.float32)
    _rectify[PROGRAMS, triton.cdiv(width, COLUMNS)](  # pyright: ignore[reportIndexIssue]
        out, slope, result, sums, count, width, ROWS, COLUMNS
    )
    return result, sums


@_rectified_slope.register_fake
def _(out: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    like = torch.empty_like(out, memory_format=torch.contiguous_format)
    return like, out.new_empty(PROGRAMS, out.shape[1], dtype=torch.float32)


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = torch._addmm_activation(bias, x, weight.T)  # pyright: ignore[reportPrivateImportUsage]
        ctx.save_for_backward(x, weight, out)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:
        x, weight, out = ctx.saved_tensors
        slope, sums = _rectified_slope(out, slopes[0])
        return slope @ weight, slope.T @ x, sums.sum(0).to(weight.dtype)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(x Wᵀ + b, 0), in the type of x."""
    kind = x.dtype
    out = _LinearRelu.apply(x.flatten(0, -2), weight.to(kind), bias.to(kind))
    assert isinstance(out, Tensor)
    return out.unflatten(0, x.shape[:-1])

"""Norms of the residual stream: norm(x + dropout(y)), and a fork into the stream and its norm.

norm(x + dropout(y)) is one kernel each way: every number is read once and written once. Random numbers are
sampled four at a time, and again in the backward pass, so no mask is stored; the compiler samples each by
itself, which takes longer than the memory access. For a fork, one kernel sums the gradients of both branches;
the compiler needs two or three for input and weights, each of which reads everything.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportGeneralTypeIssues=false, reportReturnType=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Programs that share the rows in a backward pass, each with its own sums for weight and bias.
PROGRAMS = 1056
# From this many rows on, a program of a norm takes several.
MANY_ROWS = 1024
# Numbers per warp in the backward pass of a fork. Both were measured for it.
SHARE = 2048


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


@triton.jit
def _norm(
    x_base, weight, bias, out, count, eps,
    centred: tl.constexpr, biased: tl.constexpr, width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, tile)
    valid = (row < count)[:, None] & (column < width)[None, :]
    at = row.to(tl.int64)[:, None] * width + column[None, :]
    x = tl.load(x_base + at, mask=valid, other=0.0).to(tl.float32)
    if centred:
        x = tl.where(valid, x - tl.sum(x, 1)[:, None] / width, 0.0)
    x = x * tl.rsqrt(tl.sum(x * x, 1) / width + eps)[:, None]
    x = x * tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    if biased:
        x = x + tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, x.to(out.dtype.element_ty), mask=valid)


def norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    """The layer norm of each row, or its RMS norm if not centred; without gradients."""
    x = x.contiguous()
    out, (count, width, tile) = torch.empty_like(x), _shape(x)
    rows = max(1, 2048 // tile) if count >= MANY_ROWS else 1
    _norm[(triton.cdiv(count, rows),)](
        x,
        weight,
        weight if bias is None else bias,
        out,
        count,
        eps,
        centred,
        bias is not None,
        width,
        tile,
        rows,
    )
    return out


def add_and_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, dropout: float, eps: float) -> Tensor:
    """norm(x + dropout(y))."""
    seed = torch.randint(1 << 31, (1,), device=x.device, dtype=torch.int64) if dropout else x.new_empty(1)
    return _add_and_norm(x, y, weight, bias, seed, dropout, eps)


@torch.library.custom_op("clearhead::add_and_norm", mutates_args=())
def _add_and_norm(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, seed: Tensor, dropout: float, eps: float
) -> Tensor:
    x, y = x.contiguous(), y.contiguous()
    out, (count, width, tile) = torch.empty_like(x), _shape(x)
    rows = max(1, 2048 // tile)
    _forward[(triton.cdiv(count, rows),)](
        x, y, weight, bias, seed, out, count, dropout, eps, width, tile, rows, dropout > 0
    )
    return out


@_add_and_norm.register_fake
def _(x: Tensor, *others: Any) -> Tensor:
    return _empty(x)


@torch.library.custom_op("clearhead::add_and_norm_backwards", mutates_args=())
def _add_and_norm_backward(
    gradient: Tensor, x: Tensor, y: Tensor, weight: Tensor, seed: Tensor, dropout: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x and y, and those of weight and bias, to be summed."""
    gradient, x, y = gradient.contiguous(), x.contiguous(), y.contiguous()
    gradients, (count, width, tile) = (_empty(x), _empty(x), _empty_sums(x)), _shape(x)
    rows = max(1, 1024 // tile)
    _backward[(PROGRAMS,)](
        gradient, x, y, weight, seed, *gradients, count, dropout, eps, width, tile, rows, dropout > 0,
        num_warps=max(2, tile // 512),
    )  # fmt: skip
    return gradients


@_add_and_norm_backward.register_fake
def _(gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _empty(x), _empty(x), _empty_sums(x)


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, y, weight, _, seed, ctx.dropout, ctx.eps = inputs
    ctx.save_for_backward(x, y, weight, seed)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x_gradient, y_gradient, sums = _add_and_norm_backward(gradient, *ctx.saved_tensors, ctx.dropout, ctx.eps)
    weight, bias = sums.sum(0).to(ctx.saved_tensors[2].dtype)
    return x_gradient, y_gradient, weight, bias, None, None, None


_add_and_norm.register_autograd(_differentiate, setup_context=_save)


@triton.jit
def _fork_backward(
    skip_base, gradient_base, x_base, means, inverses, weight, result, sums, count,
    centred: tl.constexpr, width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, tile)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    weight_sum = tl.zeros((rows, tile), tl.float32)
    bias_sum = tl.zeros((rows, tile), tl.float32)
    # Two stages: the next rows load while these are computed.
    for first in tl.range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows, num_stages=2):
        row = first + tl.arange(0, rows)
        valid = (row < count)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        x = tl.load(x_base + at, mask=valid, other=0.0).to(tl.float32)
        gradient = tl.load(gradient_base + at, mask=valid, other=0.0).to(tl.float32)
        skip = tl.load(skip_base + at, mask=valid, other=0.0).to(tl.float32)
        inverse = tl.load(inverses + row, mask=row < count, other=0.0)[:, None]
        if centred:
            x = x - tl.load(means + row, mask=row < count, other=0.0)[:, None]
        normed, inner = x * inverse, gradient * w[None, :]
        weight_sum += gradient * normed
        inside = inner - normed * (tl.sum(inner * normed, 1) / width)[:, None]
        if centred:
            bias_sum += gradient
            inside -= (tl.sum(inner, 1) / width)[:, None]
        tl.store(result + at, (skip + inside * inverse).to(result.dtype.element_ty), mask=valid)
    own = sums + tl.program_id(0) * 2 * width + column
    tl.store(own, tl.sum(weight_sum, 0), mask=column < width)
    tl.store(own + width, tl.sum(bias_sum, 0), mask=column < width)


@torch.library.custom_op("clearhead::fork_gradients", mutates_args=())
def fork_gradients(
    skip: Tensor, gradient: Tensor, x: Tensor, mean: Tensor | None, inverse: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the stream, and of weight and bias, to be summed; without `mean`, of an RMS norm."""
    skip, gradient, x = skip.contiguous(), gradient.contiguous(), x.contiguous()
    result, sums, (count, width, tile) = torch.empty_like(x), _empty_sums(x), _shape(x)
    rows = max(1, SHARE // tile)
    _fork_backward[(PROGRAMS,)](
        skip, gradient, x, inverse if mean is None else mean, inverse, weight, result, sums, count,
        mean is not None, width, tile, rows,
        num_warps=max(1, rows * tile // SHARE),
    )  # fmt: skip
    return result, sums


@fork_gradients.register_fake
def _(skip: Tensor, gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return _empty(x), _empty_sums(x)


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool
    ) -> tuple[Tensor, Tensor]:
        exact, mean = x.to(weight.dtype), None
        if centred:
            normed, mean, inverse = torch.native_layer_norm(exact, x.shape[1:], weight, bias, eps)
        else:
            exact = exact.float()
            inverse = torch.rsqrt(exact.square().mean(1, keepdim=True) + eps)
            normed = exact * inverse * weight
        ctx.save_for_backward(x, mean, inverse, weight)
        ctx.biased = bias is not None
        return x.view_as(x), normed.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        result, sums = fork_gradients(*gradients, *ctx.saved_tensors)
        weight, bias = sums.sum(0).to(ctx.saved_tensors[3].dtype)
        return result, weight, bias if ctx.biased else None, None, None


def fork(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    """The stream and its layer norm, or its RMS norm if not centred."""
    stream, normed = _Fork.apply(x.flatten(0, -2), weight, bias, eps, centred)  # pyright: ignore
    return stream.view_as(x), normed.view_as(x)


def _empty(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _empty_sums(x: Tensor) -> Tensor:
    """For the gradients of weight and bias in each program, (programs, 2, width)."""
    return x.new_empty(PROGRAMS, 2, x.shape[-1], dtype=torch.float32)


def _shape(x: Tensor) -> tuple[int, int, int]:
    """The number of rows, their width, and the width of a tile."""
    width = x.shape[-1]
    return x.numel() // width, width, max(64, triton.next_power_of_2(width))

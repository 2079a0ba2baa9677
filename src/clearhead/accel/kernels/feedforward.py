"""Feed-forward with the activation fused into the end of the first product.

The forward pass saves the activation's derivative, all that the backward pass needs: one more multiplication
at the end of a product costs hardly any time. GELU computes erf from e^(-x²/2) and a polynomial, within
1.5e-7 (Abramowitz and Stegun 1964, 7.1.26), because the library's erf takes longer than the memory access.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportGeneralTypeIssues=false

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from clearhead.accel.kernels.matmul import DEEP, TILE, multiply, supports_tiles, tiles

# Programs per multiprocessor: while one ends a product, another multiplies.
PROGRAMS_PER_PROCESSOR = 2
# Numbers per program of the activation alone.
SPAN = 2048
Bias = Tensor | None
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _activation(x, kind: tl.constexpr):
    """The activation and its derivative."""
    if kind == "gelu":
        size = tl.abs(x)
        bell = tl.exp2(x * x * (-0.5 * LOG2E))
        root = tl.rsqrt(0.2316418882 * size + 1.0)  # 0.3275911 / √2
        t = root * root  # cheaper than a division
        inner = (0.5307027145 * t - 0.726576013) * t + 0.7107068705
        tail = ((inner * t - 0.142248368) * t + 0.127414796) * t
        more = (0.3989422804 * size - tail) * bell  # 1 / √(2π)
        value, gradient = tl.maximum(x, 0.0) - size * (tail * bell), tl.where(x > 0, 1.0 + more, -more)
    elif kind == "gelu_tanh":
        square = x * x
        twice = x * (1.5957691216 + 0.0713548163 * square)  # 2 √(2/π), and 0.044715 times that
        root = tl.rsqrt(1.0 + tl.exp2(twice * (-1.0 * LOG2E)))
        share = root * root  # (1 + tanh) / 2
        value = x * share
        gradient = share + value * (1.0 - share) * (1.5957691216 + 0.2140644488 * square)
    else:  # squared_relu
        above = tl.maximum(x, 0.0)
        value, gradient = above * above, 2.0 * above
    return value, gradient


@triton.jit
def _halves(x, rows: tl.constexpr, columns: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(x, (rows, 2, columns // 2)), (0, 2, 1)))


@triton.jit
def _end(x, bias, out, gradients, row, column, ffn_width, kind: tl.constexpr, columns: tl.constexpr):
    if bias is not None:
        position = column + tl.arange(0, columns)
        x += tl.load(bias + position, mask=position < ffn_width, other=0.0).to(tl.float32)[None, :]
    value, gradient = _activation(x, kind)
    out.store([row, column], value.to(out.dtype))
    gradients.store([row, column], gradient.to(gradients.dtype))


@triton.jit
def _forward(
    x, weight, bias, out, gradients, rows, ffn_width, width,
    kind: tl.constexpr, tile: tl.constexpr, deep: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(ffn_width, tile)
    for number in tl.range(tl.program_id(0), tl.cdiv(rows, tile) * across, tl.num_programs(0), flatten=True):
        row, column = number // across * tile, number % across * tile
        total = tl.zeros((tile, tile), tl.float32)
        total = multiply(total, x, weight, row, column, 0, width, True, deep)
        # A quarter at a time, to keep few numbers in registers and few writes pending.
        left, right = _halves(total, tile, tile)
        a, b = _halves(left, tile, tile // 2)
        c, d = _halves(right, tile, tile // 2)
        quarter: tl.constexpr = tile // 4
        _end(a, bias, out, gradients, row, column, ffn_width, kind, quarter)
        _end(b, bias, out, gradients, row, column + quarter, ffn_width, kind, quarter)
        _end(c, bias, out, gradients, row, column + 2 * quarter, ffn_width, kind, quarter)
        _end(d, bias, out, gradients, row, column + 3 * quarter, ffn_width, kind, quarter)


@triton.jit
def _backward(
    gradient, weight, kept, out, sums, ffn_width, width,
    positive: tl.constexpr, tile: tl.constexpr, deep: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(ffn_width, tile)
    row, column = tl.program_id(0) // across * tile, tl.program_id(0) % across * tile
    total = tl.zeros((tile, tile), tl.float32)
    total = multiply(total, gradient, weight, row, column, 0, width, False, deep)
    here = kept.load([row, column]).to(tl.float32)
    total = tl.where(here > 0, total, 0.0) if positive else total * here
    out.store([row, column], total.to(out.dtype))
    if sums is not None:
        position = column + tl.arange(0, tile)
        mine = sums + tl.program_id(0) // across * ffn_width
        tl.store(mine + position, tl.sum(total, 0), mask=position < ffn_width)


@triton.jit
def _activate_all(before, out, gradients, count, kind: tl.constexpr, span: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * span + tl.arange(0, span)
    x = tl.load(before + at, mask=at < count, other=0.0).to(tl.float32)
    value, gradient = _activation(x, kind)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < count)
    tl.store(gradients + at, gradient.to(gradients.dtype.element_ty), mask=at < count)


@torch.library.custom_op("clearhead::activate", mutates_args=())
def activate(x: Tensor, weight: Tensor, bias: Bias, kind: str) -> tuple[Tensor, Tensor]:
    """The activation of x Wᵀ + b, and its derivative."""
    x, weight = x.contiguous(), weight.contiguous()
    (rows, width), ffn_width = x.shape, len(weight)
    out, gradients = x.new_empty(rows, ffn_width), x.new_empty(rows, ffn_width)
    if not supports_tiles(x, weight, out):
        before = F.linear(x, weight, bias)
        _activate_all[(triton.cdiv(out.numel(), SPAN),)](before, out, gradients, out.numel(), kind, SPAN)
        return out, gradients
    _forward[(min(_programs(x), triton.cdiv(rows, TILE) * triton.cdiv(ffn_width, TILE)),)](
        tiles(x, TILE, DEEP), tiles(weight, TILE, DEEP), bias,
        tiles(out, TILE, TILE // 4), tiles(gradients, TILE, TILE // 4),
        rows, ffn_width, width, kind, TILE, DEEP,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out, gradients


@activate.register_fake
def _(x: Tensor, weight: Tensor, bias: Bias, kind: str) -> tuple[Tensor, Tensor]:
    return x.new_empty(len(x), len(weight)), x.new_empty(len(x), len(weight))


def _programs(x: Tensor) -> int:
    """The number of programs on a GPU; a few if they are interpreted."""
    if not x.is_cuda:
        return 2
    return PROGRAMS_PER_PROCESSOR * torch.cuda.get_device_properties(x.device).multi_processor_count


@torch.library.custom_op("clearhead::gradient_before", mutates_args=())
def gradient_before(
    gradient: Tensor, weight: Tensor, kept: Tensor, positive: bool, summed: bool
) -> tuple[Tensor, Tensor]:
    """The gradient before the activation, and with `summed` its partial sums over tiles of rows.

    `kept` is the activation's derivative or, with `positive`, the output of a ReLU.
    """
    gradient, weight = gradient.contiguous(), weight.contiguous()
    (rows, width), ffn_width = gradient.shape, weight.shape[1]
    out, sums = torch.empty_like(kept), _sums(gradient, weight, summed)
    if not supports_tiles(gradient, weight):
        torch.mm(gradient, weight, out=out)
        out = out.masked_fill_(kept <= 0, 0) if positive else out.mul_(kept)
        if summed:
            sums[1:] = 0
            torch.sum(out, 0, dtype=sums.dtype, out=sums[0])
        return out, sums
    _backward[(triton.cdiv(rows, TILE) * triton.cdiv(ffn_width, TILE),)](
        tiles(gradient, TILE, DEEP), tiles(weight, DEEP, TILE),
        tiles(kept, TILE, TILE), tiles(out, TILE, TILE), sums if summed else None,
        ffn_width, width, positive, TILE, DEEP,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out, sums


@gradient_before.register_fake
def _(gradient: Tensor, weight: Tensor, kept: Tensor, positive: bool, summed: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(kept), _sums(gradient, weight, summed)


def _sums(gradient: Tensor, weight: Tensor, summed: bool) -> Tensor:
    tall = max(1, -(-len(gradient) // TILE)) if summed else 0
    return gradient.new_empty(tall, weight.shape[1], dtype=torch.float32)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, inner: Tensor, inner_bias: Bias, outer: Tensor, outer_bias: Bias, kind: str
    ) -> Tensor:
        if kind != "relu":
            out, kept = activate(x, inner, inner_bias, kind)
        elif inner_bias is None:
            out = kept = F.relu(F.linear(x, inner))
        else:
            out = kept = torch._addmm_activation(inner_bias, x, inner.T)  # pyright: ignore
        ctx.save_for_backward(x, inner, outer, out, kept)
        ctx.kind, ctx.biased = kind, (inner_bias is not None, outer_bias is not None)
        return F.linear(out, outer, outer_bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, inner, outer, out, kept = ctx.saved_tensors
        gradient, (summed, outer_biased) = gradients[0], ctx.biased
        before, sums = gradient_before(gradient, outer, kept, ctx.kind == "relu", summed)
        inner_bias = sums.sum(0).to(inner.dtype) if summed else None
        outer_bias = gradient.sum(0) if outer_biased else None
        return before @ inner, before.T @ x, inner_bias, gradient.T @ out, outer_bias, None


def feedforward(
    x: Tensor, inner: Tensor, inner_bias: Bias, outer: Tensor, outer_bias: Bias, kind: str
) -> Tensor:
    """outer(activation(inner(x))), in the dtype of x."""
    narrow = [y if y is None else y.to(x.dtype) for y in (inner, inner_bias, outer, outer_bias)]
    out: Tensor = _FeedForward.apply(x.flatten(0, -2), *narrow, kind)  # pyright: ignore
    return out.unflatten(0, x.shape[:-1])

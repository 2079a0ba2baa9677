"""A stream that goes on and is normalised: backwards, both gradients come together in one GPU kernel.

A compiler needs two kernels or three for the gradients of input and weights, and reads everything again in each.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows, each with sums of its own for weight and bias; and how many numbers of the
# stream a warp has at a time. Measured.
PROGRAMS, SHARE = 1056, 2048


@triton.jit
def _slopes(
    around_base, slope_base, x_base, means, inverses, weight, result, sums, count,
    centred: tl.constexpr, width: tl.constexpr, tile: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, tile)
    w = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    weight_sum = tl.zeros((rows, tile), tl.float32)
    bias_sum = tl.zeros((rows, tile), tl.float32)
    # The next rows are on their way while these are at work.
    for first in tl.range(tl.program_id(0) * rows, count, tl.num_programs(0) * rows, num_stages=2):
        row = first + tl.arange(0, rows)
        there = (row < count)[:, None] & (column < width)[None, :]
        where = row.to(tl.int64)[:, None] * width + column[None, :]
        x = tl.load(x_base + where, mask=there, other=0.0).to(tl.float32)
        gradient = tl.load(slope_base + where, mask=there, other=0.0).to(tl.float32)
        around = tl.load(around_base + where, mask=there, other=0.0).to(tl.float32)
        inverse = tl.load(inverses + row, mask=row < count, other=0.0)[:, None]
        if centred:
            x = x - tl.load(means + row, mask=row < count, other=0.0)[:, None]
        normed, inner = x * inverse, gradient * w[None, :]
        weight_sum += gradient * normed
        inside = inner - normed * (tl.sum(inner * normed, 1) / width)[:, None]
        if centred:
            bias_sum += gradient
            inside -= (tl.sum(inner, 1) / width)[:, None]
        tl.store(result + where, (around + inside * inverse).to(result.dtype.element_ty), mask=there)
    mine = sums + tl.program_id(0) * 2 * width + column
    tl.store(mine, tl.sum(weight_sum, 0), mask=column < width)
    tl.store(mine + width, tl.sum(bias_sum, 0), mask=column < width)


@torch.library.custom_op("clearhead::fork_gradients", mutates_args=())
def fork_gradients(
    around: Tensor, gradient: Tensor, x: Tensor, mean: Tensor | None, inverse: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient of the stream; and those of weight and bias, (programs, 2, width), to be summed.

    Without means, rows were not centred.
    """
    around, gradient, x = around.contiguous(), gradient.contiguous(), x.contiguous()
    (count, width), tile = x.shape, max(64, triton.next_power_of_2(x.shape[1]))
    result, sums = torch.empty_like(x), _sums(x)
    rows = max(1, SHARE // tile)
    _slopes[(PROGRAMS,)](  # pyright: ignore[reportIndexIssue]
        around, gradient, x, inverse if mean is None else mean, inverse, weight, result, sums, count,
        mean is not None, width, tile, rows,
        num_warps=max(1, rows * tile // SHARE),
    )  # fmt: skip
    return result, sums


@fork_gradients.register_fake
def _(around: Tensor, gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), _sums(x)


def _sums(x: Tensor) -> Tensor:
    return x.new_empty(PROGRAMS, 2, x.shape[1], dtype=torch.float32)


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
    """A stream, and its layer norm; or, if it is not to be centred, its root mean square norm."""
    on, normed = _Fork.apply(x.flatten(0, -2), weight, bias, eps, centred)  # pyright: ignore
    return on.view_as(x), normed.view_as(x)

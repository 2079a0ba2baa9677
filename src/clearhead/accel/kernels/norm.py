"""The residual stream and its norm, with one kernel for the sum of both gradients.

The compiler needs two or three kernels for the gradients of input and weights, each of which reads
everything.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Programs that share the rows, each with its own sums for weight and bias; and numbers per warp. Measured.
PROGRAMS, SHARE = 1056, 2048


@triton.jit
def _gradients(
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
    """The gradient of the stream, and those of weight and bias, (programs, 2, width), to be summed.

    Without `mean`, rows were not centred.
    """
    skip, gradient, x = skip.contiguous(), gradient.contiguous(), x.contiguous()
    (count, width), tile = x.shape, max(64, triton.next_power_of_2(x.shape[1]))
    result, sums = torch.empty_like(x), _sums(x)
    rows = max(1, SHARE // tile)
    _gradients[(PROGRAMS,)](  # pyright: ignore[reportIndexIssue]
        skip, gradient, x, inverse if mean is None else mean, inverse, weight, result, sums, count,
        mean is not None, width, tile, rows,
        num_warps=max(1, rows * tile // SHARE),
    )  # fmt: skip
    return result, sums


@fork_gradients.register_fake
def _(skip: Tensor, gradient: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
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
    """The stream and its layer norm, or its RMS norm if not centred."""
    stream, normed = _Fork.apply(x.flatten(0, -2), weight, bias, eps, centred)  # pyright: ignore
    return stream.view_as(x), normed.view_as(x)

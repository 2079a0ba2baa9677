"""Rows of a matrix by number; backwards, the gradients of equal numbers are summed in a fixed order.

Sums that wait for nobody would be different each time. Numbers are sorted instead, and each program sums the
gradients of a stretch of them; what goes over the ends of stretches is put together afterwards.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Rows of gradients that a program sums. Fewer leave more to be put together.
STRETCH = 32


@triton.jit
def _sum(
    gradients, tokens, positions, out, heads, tails,
    width: tl.constexpr, tile: tl.constexpr, stretch: tl.constexpr,
):  # fmt: skip
    """Sums of tokens that begin and end here; of the first, if it began before; of the last, if it goes on."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, there = number * stretch, column < width
    token = tl.load(tokens + first)
    # A number for each column, for what is asked of each.
    before = tl.load(tokens + first - 1) + column * 0
    begun, fresh = there & (before == token), there & (before != token)
    total = tl.zeros((tile,), tails.dtype.element_ty)
    for step in range(stretch):
        gradient = gradients + tl.load(positions + first + step) * width
        total += tl.load(gradient + column, mask=there, other=0.0).to(total.dtype)
        following = tl.load(tokens + first + step + 1)
        ends = there & (following + column * 0 != token)
        row = out + token.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=ends & fresh)
        tl.store(heads + number * width + column, total, mask=ends & begun)
        total = tl.where(ends, 0.0, total)
        fresh, begun, token = fresh | ends, begun & (following + column * 0 == token), following
    tl.store(tails + number * width + column, total, mask=there)


@triton.jit
def _join(tokens, begins, out, heads, tails, width: tl.constexpr, tile: tl.constexpr, stretch: tl.constexpr):
    """Sums of tokens that began in an earlier stretch than they end."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, there = number * stretch, column < width
    token, begin = tl.load(tokens + first), tl.load(begins + number)
    if (begin < first) & (tl.load(tokens + first + stretch) != token):
        total = tl.load(heads + number * width + column, mask=there, other=0.0)
        for earlier in range(begin // stretch, number):
            total += tl.load(tails + earlier * width + column, mask=there, other=0.0)
        row = out + token.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=there)


def summed(gradients: Tensor, tokens: Tensor, out: Tensor) -> Tensor:
    """Writes the sum of the gradients (positions, width) of each token into its row of the result."""
    count, width = gradients.shape
    if count == 0:
        return out
    gradients, (found, positions) = gradients.contiguous(), tokens.sort(stable=True)
    begins = torch.searchsorted(found, found[::STRETCH].contiguous())
    exact = torch.promote_types(gradients.dtype, torch.float32)
    heads, tails = (gradients.new_empty(len(begins), width, dtype=exact) for _ in range(2))
    # No token before the first, and none after the last up to the first of another stretch.
    beyond = len(begins) * STRETCH - count
    found, positions = F.pad(found, (1, beyond + 1), value=-1)[1:], F.pad(positions, (0, beyond))
    grid, size = (len(begins),), (width, triton.next_power_of_2(width), STRETCH)
    _sum[grid](gradients, found, positions, out, heads, tails, *size)  # pyright: ignore[reportIndexIssue]
    _join[grid](found, begins, out, heads, tails, *size)  # pyright: ignore[reportIndexIssue]
    return out


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape, ctx.dtype = weight.shape, weight.dtype
        return F.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (tokens,) = ctx.saved_tensors
        out = gradients[0].new_zeros(ctx.shape, dtype=ctx.dtype)
        return None, summed(gradients[0].flatten(0, -2), tokens.flatten(), out)


def look_up(tokens: Tensor, weight: Tensor) -> Tensor:
    """The rows of a matrix that have these numbers."""
    out = _LookUp.apply(tokens, weight)
    assert isinstance(out, Tensor)
    return out

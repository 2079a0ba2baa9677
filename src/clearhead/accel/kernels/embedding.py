"""Embedding lookup whose backward pass sums the gradients of equal tokens in a fixed order.

Atomic additions would give different sums each time. Here tokens are sorted, each program sums the gradients
of a span of them, and sums that cross the ends of spans are joined afterwards.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

# Rows of gradients per program; fewer leave more sums to be joined.
SPAN = 32


@triton.jit
def _sum(
    gradients, tokens, positions, out, heads, tails,
    width: tl.constexpr, tile: tl.constexpr, span: tl.constexpr,
):  # fmt: skip
    """Sums of tokens inside the span; of the first, if it began before; of the last, if it continues."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, valid = number * span, column < width
    token = tl.load(tokens + first)
    # One number per column, as masks need it.
    before = tl.load(tokens + first - 1) + column * 0
    begun, fresh = valid & (before == token), valid & (before != token)
    total = tl.zeros((tile,), tails.dtype.element_ty)
    for step in range(span):
        gradient = gradients + tl.load(positions + first + step) * width
        total += tl.load(gradient + column, mask=valid, other=0.0).to(total.dtype)
        following = tl.load(tokens + first + step + 1)
        ends = valid & (following + column * 0 != token)
        row = out + token.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=ends & fresh)
        tl.store(heads + number * width + column, total, mask=ends & begun)
        total = tl.where(ends, 0.0, total)
        fresh, begun, token = fresh | ends, begun & (following + column * 0 == token), following
    tl.store(tails + number * width + column, total, mask=valid)


@triton.jit
def _join(tokens, begins, out, heads, tails, width: tl.constexpr, tile: tl.constexpr, span: tl.constexpr):
    """Sums of tokens that cross the end of a span."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, valid = number * span, column < width
    token, begin = tl.load(tokens + first), tl.load(begins + number)
    if (begin < first) & (tl.load(tokens + first + span) != token):
        total = tl.load(heads + number * width + column, mask=valid, other=0.0)
        for earlier in range(begin // span, number):
            total += tl.load(tails + earlier * width + column, mask=valid, other=0.0)
        row = out + token.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=valid)


def sum_by_token(gradients: Tensor, tokens: Tensor, out: Tensor) -> Tensor:
    """Writes the summed gradients (positions, width) of each token into its row of `out`."""
    count, width = gradients.shape
    if count == 0:
        return out
    gradients, (found, positions) = gradients.contiguous(), tokens.sort(stable=True)
    begins = torch.searchsorted(found, found[::SPAN].contiguous())
    exact = torch.promote_types(gradients.dtype, torch.float32)
    heads, tails = (gradients.new_empty(len(begins), width, dtype=exact) for _ in range(2))
    # Padded so that no token comes before the first or after the last.
    missing = len(begins) * SPAN - count
    found, positions = F.pad(found, (1, missing + 1), value=-1)[1:], F.pad(positions, (0, missing))
    grid, size = (len(begins),), (width, triton.next_power_of_2(width), SPAN)
    _sum[grid](gradients, found, positions, out, heads, tails, *size)
    _join[grid](found, begins, out, heads, tails, *size)
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
        return None, sum_by_token(gradients[0].flatten(0, -2), tokens.flatten(), out)


def look_up(tokens: Tensor, weight: Tensor) -> Tensor:
    """The rows of the matrix for these tokens."""
    return _LookUp.apply(tokens, weight)  # pyright: ignore

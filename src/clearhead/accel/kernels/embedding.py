"""Rows of a matrix by number; backwards, the slopes of equal numbers are summed in a fixed order.

Sums that wait for nobody would be different each time. Numbers are sorted instead, and each program sums the
slopes of a stretch of them; what goes over the ends of stretches is put together afterwards.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Rows of slopes that a program sums. Fewer leave more to be put together.
STRETCH = 32


@triton.jit
def _sum(
    slopes, words, places, out, heads, tails,
    width: tl.constexpr, tile: tl.constexpr, stretch: tl.constexpr,
):  # fmt: skip
    """Sums of words that begin and end here; of the first, if it began before; of the last, if it goes on."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, there = number * stretch, column < width
    word = tl.load(words + first)
    # A number for each column, for what is asked of each.
    before = tl.load(words + first - 1) + column * 0
    begun, fresh = there & (before == word), there & (before != word)
    total = tl.zeros((tile,), tails.dtype.element_ty)
    for step in range(stretch):
        slope = slopes + tl.load(places + first + step) * width
        total += tl.load(slope + column, mask=there, other=0.0).to(total.dtype)
        following = tl.load(words + first + step + 1)
        ends = there & (following + column * 0 != word)
        row = out + word.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=ends & fresh)
        tl.store(heads + number * width + column, total, mask=ends & begun)
        total = tl.where(ends, 0.0, total)
        fresh, begun, word = fresh | ends, begun & (following + column * 0 == word), following
    tl.store(tails + number * width + column, total, mask=there)


@triton.jit
def _join(words, begins, out, heads, tails, width: tl.constexpr, tile: tl.constexpr, stretch: tl.constexpr):
    """Sums of words that began in an earlier stretch than they end."""
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    first, there = number * stretch, column < width
    word, begin = tl.load(words + first), tl.load(begins + number)
    if (begin < first) & (tl.load(words + first + stretch) != word):
        total = tl.load(heads + number * width + column, mask=there, other=0.0)
        for earlier in range(begin // stretch, number):
            total += tl.load(tails + earlier * width + column, mask=there, other=0.0)
        row = out + word.to(tl.int64) * width
        tl.store(row + column, total.to(out.dtype.element_ty), mask=there)


def summed(slopes: Tensor, words: Tensor, out: Tensor) -> Tensor:
    """Writes the sum of the slopes (places, width) of each word into its row of the result."""
    count, width = slopes.shape
    if count == 0:
        return out
    slopes, (found, places) = slopes.contiguous(), words.sort(stable=True)
    begins = torch.searchsorted(found, found[::STRETCH].contiguous())
    exact = torch.promote_types(slopes.dtype, torch.float32)
    heads, tails = (slopes.new_empty(len(begins), width, dtype=exact) for _ in range(2))
    # No word before the first, and none after the last up to the first of another stretch.
    beyond = len(begins) * STRETCH - count
    found, places = F.pad(found, (1, beyond + 1), value=-1)[1:], F.pad(places, (0, beyond))
    grid, size = (len(begins),), (width, triton.next_power_of_2(width), STRETCH)
    _sum[grid](slopes, found, places, out, heads, tails, *size)  # pyright: ignore[reportIndexIssue]
    _join[grid](found, begins, out, heads, tails, *size)  # pyright: ignore[reportIndexIssue]
    return out


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, words: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(words)
        ctx.shape, ctx.dtype = weight.shape, weight.dtype
        return F.embedding(words, weight)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, Tensor]:
        (words,) = ctx.saved_tensors
        out = slopes[0].new_zeros(ctx.shape, dtype=ctx.dtype)
        return None, summed(slopes[0].flatten(0, -2), words.flatten(), out)


def look_up(words: Tensor, weight: Tensor) -> Tensor:
    """The rows of a matrix that have these numbers."""
    out = _LookUp.apply(words, weight)
    assert isinstance(out, Tensor)
    return out

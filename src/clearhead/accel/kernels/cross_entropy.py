"""The plain criterion as one GPU kernel: a row of logits is read twice, the second time from the cache.

Arithmetic, not memory, is what holds such a kernel up, so each logit gets as little of it as there can be:
sums are kept apart until the end, e^x is 2^(x log₂ e) and is taken from the highest of the first tile, only
the last tile asks where the row ends, and the label's gradient is mended last. Only a row in which a later logit
is far above the first tile is walked over once more.
"""

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# Measured, for 32,000 and 50,304 tokens.
TILE, WIDE_TILE, WIDE = 8192, 16384, 40_000
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
# How far above the first tile's highest logit another may be: e^60 times 50,000 is still a float32.
ABOVE: tl.constexpr = tl.constexpr(60.0)


@triton.jit
def _add(sums, plain, highest, logit, there, reference, smooths: tl.constexpr):
    """What a tile adds to the sums of e^(logit - reference) and of logits, and the highest."""
    sums += tl.exp2(logit * LOG2E - reference * LOG2E)
    if smooths:
        plain += tl.where(there, logit, 0.0)
    return sums, plain, tl.maximum(highest, logit)


@triton.jit
def _walk(here, reference, tokens: tl.constexpr, tile: tl.constexpr, smooths: tl.constexpr):
    """Of a row: the sum of e^(logit - reference), the mean logit where it smooths, and the highest."""
    token, whole = tl.arange(0, tile), tokens // tile * tile
    sums, plain = tl.zeros((tile,), tl.float32), tl.zeros((tile,), tl.float32)
    highest = tl.full((tile,), float("-inf"), tl.float32)
    for first in tl.range(0, whole, tile):
        logit = tl.load(here + first + token).to(tl.float32)
        sums, plain, highest = _add(sums, plain, highest, logit, True, reference, smooths)
    if whole < tokens:
        there = whole + token < tokens
        logit = tl.load(here + whole + token, mask=there, other=float("-inf")).to(tl.float32)
        sums, plain, highest = _add(sums, plain, highest, logit, there, reference, smooths)
    return tl.sum(sums, 0), tl.sum(plain, 0) / tokens, tl.max(highest, 0)


@triton.jit
def _judge(
    logits, labels, losses, label_smoothing, ignore,
    tokens: tl.constexpr, tile: tl.constexpr, smooths: tl.constexpr,
):  # fmt: skip
    row, token, whole = tl.program_id(0).to(tl.int64), tl.arange(0, tile), tokens // tile * tile
    here, label = logits + row * tokens, tl.load(labels + row)
    kept = label != ignore
    wanted = tl.load(here + tl.maximum(label, 0)).to(tl.float32)
    some = tl.load(here + token, mask=token < tokens, other=float("-inf")).to(tl.float32)
    reference = tl.maximum(tl.max(some, 0), -1e30)
    total, mean, highest = _walk(here, reference, tokens, tile, smooths)
    if highest > reference + ABOVE:
        reference = highest
        total, mean, highest = _walk(here, reference, tokens, tile, smooths)
    log = reference + tl.log(total)
    loss = log - (1 - label_smoothing) * wanted - label_smoothing * mean
    tl.store(losses + row, tl.where(kept, loss, 0.0))
    # A row that is not kept has no gradients: nothing is left of e^(logit - infinity).
    shift, share = tl.where(kept, log, float("inf")) * LOG2E, tl.where(kept, label_smoothing / tokens, 0.0)
    for first in tl.range(0, whole, tile):
        gradient = tl.exp2(tl.load(here + first + token).to(tl.float32) * LOG2E - shift)
        gradient = gradient - share if smooths else gradient
        tl.store(here + first + token, gradient.to(logits.dtype.element_ty))
    if whole < tokens:
        there = whole + token < tokens
        gradient = tl.exp2(tl.load(here + whole + token, mask=there).to(tl.float32) * LOG2E - shift)
        gradient = gradient - share if smooths else gradient
        tl.store(here + whole + token, gradient.to(logits.dtype.element_ty), mask=there)
    tl.debug_barrier()  # only then is the label's gradient written, over what was written for all
    gradient = tl.exp2(wanted * LOG2E - shift) - share - (1 - label_smoothing)
    tl.store(here + label, gradient.to(logits.dtype.element_ty), mask=kept)


def judged(logits: Tensor, labels: Tensor, label_smoothing: float, ignore: int) -> Tensor:
    """The losses of rows; the gradients take the logits' position."""
    rows, tokens = logits.shape
    losses = torch.empty(rows, device=logits.device)
    tile = min(TILE if tokens < WIDE else WIDE_TILE, triton.next_power_of_2(tokens))
    _judge[(rows,)](  # pyright: ignore[reportIndexIssue]
        logits,
        labels.contiguous(),
        losses,
        label_smoothing,
        ignore,
        tokens,
        tile,
        label_smoothing > 0,
        num_warps=max(1, tile // 512),
    )
    return losses


@triton.jit
def _scale(x, factor, out, count, tile: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    scaled = tl.load(x + where, mask=where < count) * tl.load(factor)
    tl.store(out + where, scaled.to(out.dtype.element_ty), mask=where < count)


def scaled(x: Tensor, factor: Tensor) -> Tensor:
    """A tensor times a number that only the GPU knows: torch's own product takes several times as long."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    grid = (triton.cdiv(x.numel(), TILE),)
    _scale[grid](x.contiguous(), factor, out, x.numel(), TILE)  # pyright: ignore[reportIndexIssue]
    return out

"""Label-smoothed cross-entropy as one kernel: each row of logits is read twice, the second time from cache.

The kernel is bound by arithmetic, not memory, so each logit gets as little as possible: sums stay per lane
until the end, e^x is 2^(x log₂ e) relative to the maximum of the first tile, only the last tile is masked,
and the label's gradient is corrected last. Only a row with a later logit far above its first tile is read
once more.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from torch import Tensor

# Measured, for 32,000 and 50,304 tokens.
TILE, WIDE_TILE, WIDE = 8192, 16384, 40_000
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
# How far a logit may be above the maximum of the first tile: e^60 times 50,000 is still a float32.
MARGIN: tl.constexpr = tl.constexpr(60.0)


@triton.jit
def _add(sums, plain, highest, logit, valid, reference, smooths: tl.constexpr):
    """Adds a tile to the sums of e^(logit - reference) and of logits, and to the maximum."""
    sums += tl.exp2(logit * LOG2E - reference * LOG2E)
    if smooths:
        plain += tl.where(valid, logit, 0.0)
    return sums, plain, tl.maximum(highest, logit)


@triton.jit
def _reduce(here, reference, tokens: tl.constexpr, tile: tl.constexpr, smooths: tl.constexpr):
    """Of a row: the sum of e^(logit - reference), the mean logit if smoothed, and the maximum."""
    token, whole = tl.arange(0, tile), tokens // tile * tile
    sums, plain = tl.zeros((tile,), tl.float32), tl.zeros((tile,), tl.float32)
    highest = tl.full((tile,), float("-inf"), tl.float32)
    for first in tl.range(0, whole, tile):
        logit = tl.load(here + first + token).to(tl.float32)
        sums, plain, highest = _add(sums, plain, highest, logit, True, reference, smooths)
    if whole < tokens:
        valid = whole + token < tokens
        logit = tl.load(here + whole + token, mask=valid, other=float("-inf")).to(tl.float32)
        sums, plain, highest = _add(sums, plain, highest, logit, valid, reference, smooths)
    return tl.sum(sums, 0), tl.sum(plain, 0) / tokens, tl.max(highest, 0)


@triton.jit
def _cross_entropy(
    logits, labels, losses, label_smoothing, ignore_index,
    tokens: tl.constexpr, tile: tl.constexpr, smooths: tl.constexpr,
):  # fmt: skip
    row, token, whole = tl.program_id(0).to(tl.int64), tl.arange(0, tile), tokens // tile * tile
    here, label = logits + row * tokens, tl.load(labels + row)
    kept = label != ignore_index
    wanted = tl.load(here + tl.maximum(label, 0)).to(tl.float32)
    some = tl.load(here + token, mask=token < tokens, other=float("-inf")).to(tl.float32)
    reference = tl.maximum(tl.max(some, 0), -1e30)
    total, mean, highest = _reduce(here, reference, tokens, tile, smooths)
    if highest > reference + MARGIN:
        reference = highest
        total, mean, highest = _reduce(here, reference, tokens, tile, smooths)
    log = reference + tl.log(total)
    loss = log - (1 - label_smoothing) * wanted - label_smoothing * mean
    tl.store(losses + row, tl.where(kept, loss, 0.0))
    # An ignored row has no gradients: e^(logit - infinity) is 0.
    shift, share = tl.where(kept, log, float("inf")) * LOG2E, tl.where(kept, label_smoothing / tokens, 0.0)
    for first in tl.range(0, whole, tile):
        gradient = tl.exp2(tl.load(here + first + token).to(tl.float32) * LOG2E - shift)
        gradient = gradient - share if smooths else gradient
        tl.store(here + first + token, gradient.to(logits.dtype.element_ty))
    if whole < tokens:
        valid = whole + token < tokens
        gradient = tl.exp2(tl.load(here + whole + token, mask=valid).to(tl.float32) * LOG2E - shift)
        gradient = gradient - share if smooths else gradient
        tl.store(here + whole + token, gradient.to(logits.dtype.element_ty), mask=valid)
    tl.debug_barrier()  # the label's gradient overwrites what all lanes have written
    gradient = tl.exp2(wanted * LOG2E - shift) - share - (1 - label_smoothing)
    tl.store(here + label, gradient.to(logits.dtype.element_ty), mask=kept)


def cross_entropy(logits: Tensor, labels: Tensor, label_smoothing: float, ignore_index: int) -> Tensor:
    """The loss of each row; the gradients overwrite the logits."""
    rows, tokens = logits.shape
    losses = torch.empty(rows, device=logits.device)
    tile = min(TILE if tokens < WIDE else WIDE_TILE, triton.next_power_of_2(tokens))
    _cross_entropy[(rows,)](
        logits, labels.contiguous(), losses, label_smoothing, ignore_index,
        tokens, tile, label_smoothing > 0,
        num_warps=max(1, tile // 512),
    )  # fmt: skip
    return losses


@triton.jit
def _scale(x, factor, out, count, tile: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    scaled = tl.load(x + at, mask=at < count) * tl.load(factor)
    tl.store(out + at, scaled.to(out.dtype.element_ty), mask=at < count)


def scale(x: Tensor, factor: Tensor) -> Tensor:
    """A tensor times a number on the GPU: several times as fast as torch's own product."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _scale[(triton.cdiv(x.numel(), TILE),)](x.contiguous(), factor, out, x.numel(), TILE)
    return out

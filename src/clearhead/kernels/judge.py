"""The plain criterion as one GPU kernel, which holds a row of logits in registers: it is read once."""

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

MOST_WORDS = 1 << 16
"""Rows that are longer do not fit."""


@triton.jit
def _judge(
    logits, labels, losses, smoothing, ignore, words: tl.constexpr, tile: tl.constexpr
):  # fmt: skip
    row, word = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    label = tl.load(labels + row)
    kept = tl.where(label == ignore, 0.0, 1.0)
    here = logits + row * words
    logit = tl.load(here + word, mask=word < words, other=float("-inf")).to(tl.float32)
    highest = tl.max(logit, 0)
    share = tl.exp(logit - highest)
    total = tl.sum(share, 0)
    mean = tl.sum(tl.where(word < words, logit, 0.0), 0) / words
    wanted = tl.sum(tl.where(word == label, logit, 0.0), 0)
    entropy = highest + tl.log(total) - (1 - smoothing) * wanted - smoothing * mean
    tl.store(losses + row, entropy * kept)
    target = smoothing / words + tl.where(word == label, 1 - smoothing, 0.0)
    slope = (share / total - target) * kept
    tl.store(here + word, slope.to(logits.dtype.element_ty), mask=word < words)


def judged(logits: Tensor, labels: Tensor, smoothing: float, ignore: int) -> Tensor:
    """The losses of rows; the slopes take the logits' place."""
    rows, words = logits.shape
    losses = torch.empty(rows, device=logits.device)
    tile = triton.next_power_of_2(words)
    _judge[(rows,)](  # pyright: ignore[reportIndexIssue]
        logits,
        labels.contiguous(),
        losses,
        smoothing,
        ignore,
        words,
        tile,
        num_warps=max(4, min(32, tile >> 10)),
    )
    return losses

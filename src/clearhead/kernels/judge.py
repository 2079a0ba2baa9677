"""The plain criterion as one GPU kernel, which holds a row of logits in registers: it is read once."""

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

MOST_WORDS = 1 << 16
"""Rows that are longer do not fit."""


@triton.jit
def _judge(logits, labels, losses, smoothing, ignore, words: tl.constexpr, tile: tl.constexpr):
    row, word = tl.program_id(0).to(tl.int64), tl.arange(0, tile)
    here, label = logits + row * words, tl.load(labels + row)
    kept = tl.where(label == ignore, 0.0, 1.0)
    wanted = tl.load(here + tl.maximum(label, 0)).to(tl.float32)
    # It stays as narrow as it came, and exponentials are taken twice: two rows then share a processor.
    logit = tl.load(here + word, mask=word < words, other=float("-inf"))
    highest = tl.max(logit, 0).to(tl.float32)
    log = highest + tl.log(tl.sum(tl.exp(logit.to(tl.float32) - highest), 0))
    mean = tl.sum(tl.where(word < words, logit.to(tl.float32), 0.0), 0) / words
    tl.store(losses + row, (log - (1 - smoothing) * wanted - smoothing * mean) * kept)
    target = smoothing / words + tl.where(word == label, 1 - smoothing, 0.0)
    slope = (tl.exp(logit.to(tl.float32) - log) - target) * kept
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
        num_warps=max(4, tile >> 11),
    )
    return losses

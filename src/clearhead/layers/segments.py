"""Chooses a GPU kernel for rows of several sentences, one that skips the keys of other sentences."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from clearhead.accel import kernels
from clearhead.layers.mask import And, Causal, Mask, SameSegment

Kernel = Callable[[list[Tensor], float], Tensor]
"""Takes queries, keys and values, (batch, positions, parts, heads, size) in one to three tensors, and the
scale of the scores; returns the head outputs, (batch, heads, positions, size)."""

TILE = 128
"""The positions that one program of a kernel processes."""
SIZES = (16, 32, 64, 128)


def segment_kernel(queries: Tensor, keys: Tensor, mask: Mask) -> Kernel | None:
    """The kernel for these shapes and a segment mask, or None."""
    if not (kernels.supports(queries) and queries.shape[-1] in SIZES):
        return None
    segments, causal = segment_mask(mask)
    if segments is None:
        return None
    positions, length = queries.shape[2], keys.shape[2]
    if max(positions, length) <= TILE:
        return functools.partial(_tile_attention, segments=segments, causal=causal)
    # Uncompiled, flex attention would materialise all scores.
    if positions % TILE == 0 and length % TILE == 0 and torch.compiler.is_compiling():
        return functools.partial(_block_attention, segments=segments, causal=causal)
    return None


def segment_mask(mask: Mask) -> tuple[SameSegment | None, bool]:
    """The segment mask in a mask, if any, and whether it is also causal."""
    if isinstance(mask, SameSegment):
        return mask, False
    if isinstance(mask, And) and isinstance(mask.first, SameSegment) and isinstance(mask.second, Causal):
        return mask.first, True
    return None, False


def _tile_attention(parts: list[Tensor], scale: float, segments: SameSegment, causal: bool) -> Tensor:
    from clearhead.accel.kernels.tile_attention import tile_attention

    return tile_attention(parts, segments.queries, segments.keys, causal, scale)[0].transpose(1, 2)


def _block_attention(parts: list[Tensor], scale: float, segments: SameSegment, causal: bool) -> Tensor:
    from clearhead.accel.kernels.block_attention import block_attention

    queries, keys, values = (one.transpose(1, 2) for part in parts for one in part.unbind(2))
    return block_attention(queries, keys, values, segments.queries, segments.keys, causal, scale)

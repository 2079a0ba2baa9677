"""Which GPU kernel serves rows of several sentences: one that passes over what lies in other sentences.

Everywhere else a mask of all queries and keys does, as it does where there is no such kernel.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from clearhead.accel import kernels
from clearhead.layers.mask import Both, Causal, Mask, SameSegment

Kernel = Callable[[list[Tensor], float], Tensor]
"""Takes queries, keys and values, (rows, positions, n, heads, size) in one tensor, two or three, and the scale
of scores; gives mixtures, (rows, heads, positions, size)."""

TILE = 128
"""The positions that a program of a kernel takes at once."""
SIZES = (16, 32, 64, 128)


def segment_kernel(queries: Tensor, keys: Tensor, mask: Mask) -> Kernel | None:
    """The kernel for these shapes, where the mask is one of sentences; None where there is none."""
    if not (kernels.supports(queries) and queries.shape[-1] in SIZES):
        return None
    sentences, causal = by_sentence(mask)
    if sentences is None:
        return None
    positions, length = queries.shape[2], keys.shape[2]
    if max(positions, length) <= TILE:
        return functools.partial(_in_tiles, sentences=sentences, causal=causal)
    # Uncompiled, the other kernel would hold all scores at once.
    if positions % TILE == 0 and length % TILE == 0 and torch.compiler.is_compiling():
        return functools.partial(_in_blocks, sentences=sentences, causal=causal)
    return None


def by_sentence(mask: Mask) -> tuple[SameSegment | None, bool]:
    """The rule of sentences in a mask, and whether it is causal too."""
    if isinstance(mask, SameSegment):
        return mask, False
    if isinstance(mask, Both) and isinstance(mask.first, SameSegment) and isinstance(mask.second, Causal):
        return mask.first, True
    return None, False


def _in_tiles(parts: list[Tensor], scale: float, sentences: SameSegment, causal: bool) -> Tensor:
    from clearhead.accel.kernels.tile_attention import tile_attention

    return tile_attention(parts, sentences.queries, sentences.keys, causal, scale)[0].transpose(1, 2)


def _in_blocks(parts: list[Tensor], scale: float, sentences: SameSegment, causal: bool) -> Tensor:
    from clearhead.accel.kernels.block_attention import block_attention

    queries, keys, values = (one.transpose(1, 2) for part in parts for one in part.unbind(2))
    return block_attention(queries, keys, values, sentences.queries, sentences.keys, causal, scale)

"""Attention within long rows of several sentences, which skips fully masked tiles."""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

TILE = 128


def block_attention(
    queries: Tensor, keys: Tensor, values: Tensor, query_segments: Tensor, key_segments: Tensor,
    causal: bool, scale: float,
) -> Tensor:  # fmt: skip
    """The head outputs for queries (rows, heads, positions, size), positions a multiple of `TILE`.

    A query attends to the keys of its own segment, and to all keys if its segment is 0. Must be compiled.
    """

    def allowed(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        own = query_segments[row, query]
        same = (own == key_segments[row, key]) | (own == 0)
        return same & (query >= key) if causal else same

    partial, full = tile_masks(query_segments, key_segments, causal)
    mask = BlockMask.from_kv_blocks(
        *tile_indices(partial & ~full),
        *tile_indices(full),
        BLOCK_SIZE=TILE,
        mask_mod=allowed,
        seq_lengths=(queries.shape[2], keys.shape[2]),
    )
    output = flex_attention(queries, keys, values, block_mask=mask, scale=scale)
    assert isinstance(output, Tensor)
    return output


def tile_masks(query_segments: Tensor, key_segments: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """For each tile of queries and keys: whether any query attends to any key, and whether all do to all."""
    own = query_segments[:, None, :, None]
    allowed = (own == key_segments[:, None, None]) | (own == 0)
    if causal:
        allowed = allowed & torch.ones_like(allowed[0, 0]).tril()
    tiles = allowed.unflatten(-1, (-1, TILE)).unflatten(-3, (-1, TILE)).transpose(-3, -2)
    return tiles.any(-1).any(-1), tiles.all(-1).all(-1)


def tile_indices(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """For each tile of queries: the number of marked tiles of keys, and all tiles, marked ones first."""
    order = tiles.int().argsort(dim=-1, descending=True, stable=True)
    return tiles.sum(-1, dtype=torch.int32), order.int()

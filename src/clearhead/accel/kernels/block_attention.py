"""Attention within long rows of several sentences: tiles in which nobody sees anybody are passed over."""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

TILE = 128


def block_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    asking: Tensor,
    answering: Tensor,
    causal: bool,
    scale: float,
) -> Tensor:
    """What queries (rows, heads, positions, size) find; positions are multiples of `TILE`. To be compiled.

    A query sees the keys whose sentence in `answering` is its own in `asking`, and all if that is 0.
    """

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        mine = asking[row, query]
        seen = (mine == answering[row, key]) | (mine == 0)
        return seen & (query >= key) if causal else seen

    some, whole = blocks(asking, answering, causal)
    mask = BlockMask.from_kv_blocks(
        *listed(some & ~whole),
        *listed(whole),
        BLOCK_SIZE=TILE,
        mask_mod=sees,
        seq_lengths=(queries.shape[2], keys.shape[2]),
    )
    mixed = flex_attention(queries, keys, values, block_mask=mask, scale=scale)
    assert isinstance(mixed, Tensor)
    return mixed


def blocks(asking: Tensor, answering: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """For tiles of queries and of keys: whether some query sees some key there, and whether all see all."""
    mine = asking[:, None, :, None]
    seen = (mine == answering[:, None, None]) | (mine == 0)
    if causal:
        seen = seen & torch.ones_like(seen[0, 0]).tril()
    tiles = seen.unflatten(-1, (-1, TILE)).unflatten(-3, (-1, TILE)).transpose(-3, -2)
    return tiles.any(-1).any(-1), tiles.all(-1).all(-1)


def listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many tiles of keys are chosen for each tile of queries, and which: they come first."""
    order = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.int()

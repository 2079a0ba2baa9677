"""Attention of one query per row to keys and values that a table finds, and storing new ones.

Beams of a search share most of what is cached: a table of rows replaces moving the caches, and each row reads
as many keys as it has, not as many as there is room for. One program per row and head goes through the keys
once, with the running softmax of Milakov and Gimelshein (2018).
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from torch import Tensor

# Capacity up to which a program sees few keys, and rows times heads up to which programs are few.
SHORT, FEW = 256, 512
# Keys per step of the loop and warps of a program. Few programs need many warps to hide the latency of
# memory; many programs hide it for each other. Measured.
TILES = {(True, True): (32, 4), (True, False): (32, 1), (False, True): (256, 8), (False, False): (128, 4)}
LOG2_E = 1.4426950408889634


@triton.jit
def _attend(
    queries, keys, values, table, firsts, lengths, out, scale,
    query_row, query_head, key_row, key_head, key_position, value_row, value_head, value_position,
    table_row, table_position, shared_heads,
    size: tl.constexpr, wide: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    shared = head // shared_heads
    column, offset = tl.arange(0, wide), tl.arange(0, tile)
    valid = column < size
    query = tl.load(queries + row * query_row + head * query_head + column, mask=valid, other=0.0)
    query = query.to(tl.float32) * scale
    first, length = tl.load(firsts + row), tl.load(lengths + row)
    best, total = -float("inf"), 0.0
    gathered = tl.zeros((wide,), tl.float32)
    for start in range(first, length, tile):
        position = start + offset
        inside = position < length
        stored = tl.load(table + row * table_row + position * table_position, mask=inside, other=0)
        stored = stored.to(tl.int64)
        both = inside[:, None] & valid[None, :]
        at = stored * key_row + shared * key_head + position * key_position
        key = tl.load(keys + at[:, None] + column[None, :], mask=both, other=0.0).to(tl.float32)
        score = tl.where(inside, tl.sum(query[None, :] * key, 1), -float("inf"))
        higher = tl.maximum(best, tl.max(score, 0))
        weight, shrink = tl.exp2(score - higher), tl.exp2(best - higher)
        at = stored * value_row + shared * value_head + position * value_position
        value = tl.load(values + at[:, None] + column[None, :], mask=both, other=0.0).to(tl.float32)
        gathered = gathered * shrink + tl.sum(weight[:, None] * value, 0)
        total = total * shrink + tl.sum(weight, 0)
        best = higher
    at = (row * tl.num_programs(1) + head) * size + column
    tl.store(out + at, (gathered / total).to(out.dtype.element_ty), mask=valid)


def cached_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    firsts: Tensor,
    lengths: Tensor,
    scale: float,
) -> Tensor:
    """What the query (rows, heads, 1, size) of each row gathers, in the same shape.

    Key p of row r is keys[table[r, p], :, p], for p from firsts[r] to lengths[r] - 1.
    """
    rows, heads, _, size = queries.shape
    out = torch.empty(rows, heads, 1, size, dtype=queries.dtype, device=queries.device)
    tile, warps = TILES[keys.shape[2] <= SHORT, rows * heads <= FEW]
    assert keys.stride(3) == values.stride(3) == queries.stride(3) == 1
    _attend[(rows, heads)](
        queries, keys, values, table, firsts, lengths, out, scale * LOG2_E,
        queries.stride(0), queries.stride(1), *keys.stride()[:3], *values.stride()[:3],
        *table.stride(), heads // keys.shape[1],
        size, triton.next_power_of_2(size), tile,
        num_warps=warps,
    )  # fmt: skip
    return out


@triton.jit
def _store(
    new_keys, new_values, keys, values, lengths,
    new_row, new_head, new_value_row, new_value_head, key_row, key_head, key_position,
    size: tl.constexpr, wide: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, wide)
    valid = column < size
    at = row * key_row + head * key_head + (tl.load(lengths + row).to(tl.int64) - 1) * key_position + column
    key = tl.load(new_keys + row * new_row + head * new_head + column, mask=valid)
    value = tl.load(new_values + row * new_value_row + head * new_value_head + column, mask=valid)
    tl.store(keys + at, key, mask=valid)
    tl.store(values + at, value, mask=valid)


def store(new_keys: Tensor, new_values: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> None:
    """Writes one key and value per row (rows, heads, 1, size) to position lengths - 1 of the caches."""
    rows, heads, _, size = new_keys.shape
    assert keys.stride() == values.stride()
    assert keys.stride(3) == new_keys.stride(3) == new_values.stride(3) == 1
    _store[(rows, heads)](
        new_keys, new_values, keys, values, lengths,
        *new_keys.stride()[:2], *new_values.stride()[:2], *keys.stride()[:3],
        size, triton.next_power_of_2(size),
        num_warps=1,
    )  # fmt: skip

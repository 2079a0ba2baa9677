"""Attention within short rows of several sentences: one GPU kernel forwards, one backwards.

A general kernel walks over tiles, and takes several passes backwards so that no two programs write to one
place. A short row is a single tile: a program holds one head of one row whole, reads every number once and
writes every result once.
"""

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# The kernels take powers of two, for which there is an instruction: e^x is 2 to the power of x times this.
LOG2_E = 1.4426950408889634


@triton.jit
def _load(base, row, head, strides, first, places: tl.constexpr, tile: tl.constexpr, size: tl.constexpr):
    """Places of one head of one row, (tile, size); zeros behind the last place."""
    place = first + tl.arange(0, tile)[:, None]
    where = row * strides[0] + head * strides[1] + place * strides[2] + tl.arange(0, size)[None, :]
    return tl.load(base + where, mask=place < places, other=0.0)


@triton.jit
def _store(
    base, row, head, heads, first, value, places: tl.constexpr, tile: tl.constexpr, size: tl.constexpr
):  # fmt: skip
    """The same into a tensor (rows, places, heads, size) without gaps."""
    place = first + tl.arange(0, tile)[:, None]
    where = ((row * places + place) * heads + head) * size + tl.arange(0, size)[None, :]
    tl.store(base + where, value.to(base.dtype.element_ty), mask=place < places)


@triton.jit
def _scores(
    q, k, asking, answering, row, first, scale,
    queries: tl.constexpr, keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr,
    causal: tl.constexpr,
):  # fmt: skip
    """Scores in powers of two; minus infinity where a query does not see a key."""
    i, j = first + tl.arange(0, asks), tl.arange(0, answers)
    mine = tl.load(asking + row * queries + i, mask=i < queries, other=0)[:, None]
    theirs = tl.load(answering + row * keys + j, mask=j < keys, other=-1)[None, :]
    sees = (mine == theirs) | ((mine == 0) & (theirs >= 0))
    if causal:
        sees = sees & (i[:, None] >= j[None, :])
    return tl.where(sees, tl.dot(q, tl.trans(k)) * scale, float("-inf"))


@triton.jit
def _forward(
    q_base, k_base, v_base, asking, answering, out, logs, q_strides, k_strides, v_strides, scale, heads,
    queries: tl.constexpr, keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    row, head, first = (
        (tl.program_id(0) // heads).to(tl.int64),
        tl.program_id(0) % heads,
        tl.program_id(1) * asks,
    )
    q = _load(q_base, row, head, q_strides, first, queries, asks, size)
    k = _load(k_base, row, head, k_strides, 0, keys, answers, size)
    v = _load(v_base, row, head, v_strides, 0, keys, answers, size)
    scores = _scores(q, k, asking, answering, row, first, scale, queries, keys, asks, answers, causal)
    highest = tl.max(scores, 1)
    weights = tl.exp2(scores - highest[:, None])
    total = tl.sum(weights, 1)
    mixed = tl.dot(weights.to(v.dtype), v) / total[:, None]
    _store(out, row, head, heads, first, mixed, queries, asks, size)
    i = first + tl.arange(0, asks)
    tl.store(logs + (row * heads + head) * queries + i, highest + tl.log2(total), mask=i < queries)


@triton.jit
def _backward(
    q_base, k_base, v_base, asking, answering, out, logs, slope_base, q_slope, k_slope, v_slope,
    q_strides, k_strides, v_strides, out_strides, slope_strides, scale, scale_e, heads,
    queries: tl.constexpr, keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    slope = _load(slope_base, row, head, slope_strides, 0, queries, asks, size)
    mixed = _load(out, row, head, out_strides, 0, queries, asks, size)
    # Softmax takes off the mean of the slopes at its results, each by its weight.
    mean = tl.sum(mixed.to(tl.float32) * slope.to(tl.float32), 1)
    q = _load(q_base, row, head, q_strides, 0, queries, asks, size)
    k = _load(k_base, row, head, k_strides, 0, keys, answers, size)
    i = tl.arange(0, asks)
    log = tl.load(logs + (row * heads + head) * queries + i, mask=i < queries, other=0.0)
    scores = _scores(q, k, asking, answering, row, 0, scale, queries, keys, asks, answers, causal)
    weights = tl.exp2(scores - log[:, None]).to(k.dtype)
    _store(v_slope, row, head, heads, 0, tl.dot(tl.trans(weights), slope), keys, answers, size)
    v = _load(v_base, row, head, v_strides, 0, keys, answers, size)
    inner = (weights * (tl.dot(slope, tl.trans(v)) - mean[:, None]) * scale_e).to(v.dtype)
    _store(k_slope, row, head, heads, 0, tl.dot(tl.trans(inner), q), keys, answers, size)
    _store(q_slope, row, head, heads, 0, tl.dot(inner, k), queries, asks, size)


@torch.library.custom_op("clearhead::attend_in_tiles", mutates_args=())
def attend_in_tiles(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    asking: Tensor,
    answering: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """What queries (rows, heads, places, size) find, (rows, places, heads, size); and what backwards needs.

    A query sees the keys whose sentence in `answering` is its own in `asking`, and all if that is 0.
    """
    out, logs = _room(queries)
    tensors = [_dense_heads(tensor) for tensor in (queries, keys, values)]
    launched(
        _forward, queries, keys, causal,
        *tensors, asking.contiguous(), answering.contiguous(), out, logs,
        *(tensor.stride()[:3] for tensor in tensors), scale * LOG2_E,
    )  # fmt: skip
    return out, logs


@attend_in_tiles.register_fake
def _(queries: Tensor, keys: Tensor, values: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return _room(queries)


@torch.library.custom_op("clearhead::attend_in_tiles_backwards", mutates_args=())
def attend_backwards(
    slope: Tensor, queries: Tensor, keys: Tensor, values: Tensor, asking: Tensor, answering: Tensor,
    out: Tensor, logs: Tensor, causal: bool, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The slopes at queries, keys and values, each (rows, places, heads, size)."""
    slopes = _slopes(queries, keys)
    tensors = [_dense_heads(tensor) for tensor in (queries, keys, values)]
    slope = _dense_heads(slope.transpose(1, 2))
    launched(
        _backward, queries, keys, causal,
        *tensors, asking.contiguous(), answering.contiguous(), out, logs, slope, *slopes,
        *(tensor.stride()[:3] for tensor in (*tensors, out.transpose(1, 2), slope)), scale * LOG2_E, scale,
    )  # fmt: skip
    return slopes


@attend_backwards.register_fake
def _(slope: Tensor, queries: Tensor, keys: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _slopes(queries, keys)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)


def _derive(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    slopes = attend_backwards(slope, *ctx.saved_tensors, ctx.causal, ctx.scale)
    return *(made.transpose(1, 2) for made in slopes), None, None, None, None


attend_in_tiles.register_autograd(_derive, setup_context=_keep)


def launched(kernel: Any, queries: Tensor, keys: Tensor, causal: bool, *arguments: Any) -> None:
    """Programs for each head of each row: forwards one for every 64 queries, backwards one for all."""
    rows, heads, places, size = queries.shape
    asks, answers = (max(16, triton.next_power_of_2(length)) for length in (places, keys.shape[2]))
    if kernel is _forward:
        asks = min(asks, 64)
    # Measured: so wide a tile wants more threads, with few enough numbers each that two programs share a
    # processor.
    wide = {"num_warps": 8, "maxnreg": 128} if asks > 64 else {"num_warps": 4}
    kernel[rows * heads, triton.cdiv(places, asks)](
        *arguments, heads, places, keys.shape[2], asks, answers, size, causal, **wide
    )


def _room(queries: Tensor) -> tuple[Tensor, Tensor]:
    rows, heads, places, size = queries.shape
    return queries.new_empty(rows, places, heads, size), queries.new_empty(
        rows, heads, places, dtype=torch.float32
    )


def _slopes(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    asked, read = (tensor.transpose(1, 2).shape for tensor in (queries, keys))
    return queries.new_empty(asked), queries.new_empty(read), queries.new_empty(read)


def _dense_heads(tensor: Tensor) -> Tensor:
    """With the numbers of a head side by side."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()

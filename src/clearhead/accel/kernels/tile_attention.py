"""Attention within short rows of several sentences: one GPU kernel forwards, one backwards.

A general kernel walks over tiles, and takes several passes backwards so that no two programs write to one
position. A short row is a single tile: a program holds one head of one row whole, reads every number once and
writes every result once.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

# The kernels take powers of two, for which there is an instruction: e^x is 2 to the power of x times this.
LOG2_E = 1.4426950408889634
# What a program takes at once of the longest rows: queries forwards, keys backwards.
HALF = 64


@triton.jit
def _load(base, row, head, strides, first, positions: tl.constexpr, tile: tl.constexpr, size: tl.constexpr):
    """Positions of one head of one row, (tile, size); zeros behind the last position."""
    position = first + tl.arange(0, tile)[:, None]
    where = row * strides[0] + head * strides[1] + position * strides[2] + tl.arange(0, size)[None, :]
    return tl.load(base + where, mask=position < positions, other=0.0)


@triton.jit
def _store(
    base, row, head, strides, first, value, positions: tl.constexpr, tile: tl.constexpr, size: tl.constexpr
):  # fmt: skip
    position = first + tl.arange(0, tile)[:, None]
    where = row * strides[0] + head * strides[1] + position * strides[2] + tl.arange(0, size)[None, :]
    tl.store(base + where, value.to(base.dtype.element_ty), mask=position < positions)


@triton.jit
def _scores(
    q, k, mine, answering, row, first, after, scale,
    keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    """Scores in powers of two, of queries from `first` on, of sentences `mine`, and keys from `after` on.

    Minus infinity where a query does not see a key.
    """
    i, j = first + tl.arange(0, asks), after + tl.arange(0, answers)
    mine = mine[:, None]
    theirs = tl.load(answering + row * keys + j, mask=j < keys, other=-1)[None, :]
    sees = (mine == theirs) | ((mine == 0) & (theirs >= 0))
    if causal:
        sees = sees & (i[:, None] >= j[None, :])
    return tl.where(sees, tl.dot(q, tl.trans(k)) * scale, float("-inf"))


@triton.jit
def _forward(
    q_base, k_base, v_base, out, q_strides, k_strides, v_strides, out_strides,
    asking, answering, logs, scale, heads,
    queries: tl.constexpr, keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    first = tl.program_id(1) * asks
    q = _load(q_base, row, head, q_strides, first, queries, asks, size)
    k = _load(k_base, row, head, k_strides, 0, keys, answers, size)
    v = _load(v_base, row, head, v_strides, 0, keys, answers, size)
    i = first + tl.arange(0, asks)
    mine = tl.load(asking + row * queries + i, mask=i < queries, other=0)
    scores = _scores(q, k, mine, answering, row, first, 0, scale, keys, asks, answers, causal)
    highest = tl.max(scores, 1)
    weights = tl.exp2(scores - highest[:, None])
    total = tl.sum(weights, 1)
    mixed = tl.dot(weights.to(v.dtype), v) / total[:, None]
    _store(out, row, head, out_strides, first, mixed, queries, asks, size)
    tl.store(logs + (row * heads + head) * queries + i, highest + tl.log2(total), mask=i < queries)


@triton.jit
def _backward(
    q_base, k_base, v_base, out, slope_base, q_slope, k_slope, v_slope,
    q_strides, k_strides, v_strides, out_strides, slope_strides,
    q_slope_strides, k_slope_strides, v_slope_strides,
    asking, answering, logs, scale, scale_e, heads,
    queries: tl.constexpr, keys: tl.constexpr, asks: tl.constexpr, answers: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    """All queries of one head of one row; so many keys at once as registers hold without spilling."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    gradient = _load(slope_base, row, head, slope_strides, 0, queries, asks, size)
    mixed = _load(out, row, head, out_strides, 0, queries, asks, size)
    # Softmax takes off the mean of the gradients at its results, each by its weight.
    mean = tl.sum(mixed.to(tl.float32) * gradient.to(tl.float32), 1)
    q = _load(q_base, row, head, q_strides, 0, queries, asks, size)
    i = tl.arange(0, asks)
    log = tl.load(logs + (row * heads + head) * queries + i, mask=i < queries, other=0.0)
    mine = tl.load(asking + row * queries + i, mask=i < queries, other=0)
    total = tl.zeros((asks, size), tl.float32)
    for after in tl.range(0, keys, answers):
        k = _load(k_base, row, head, k_strides, after, keys, answers, size)
        scores = _scores(q, k, mine, answering, row, 0, after, scale, keys, asks, answers, causal)
        weights = tl.exp2(scores - log[:, None]).to(k.dtype)
        v_new = tl.dot(tl.trans(weights), gradient)
        _store(v_slope, row, head, v_slope_strides, after, v_new, keys, answers, size)
        v = _load(v_base, row, head, v_strides, after, keys, answers, size)
        inner = (weights * (tl.dot(gradient, tl.trans(v)) - mean[:, None]) * scale_e).to(v.dtype)
        k_new = tl.dot(tl.trans(inner), q)
        _store(k_slope, row, head, k_slope_strides, after, k_new, keys, answers, size)
        total = tl.dot(inner, k, total)
    _store(q_slope, row, head, q_slope_strides, 0, total, queries, asks, size)


@torch.library.custom_op("clearhead::tile_attention", mutates_args=())
def tile_attention(
    parts: list[Tensor], asking: Tensor, answering: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """What queries find, (rows, positions, heads, size), and what the way back needs.

    The parts are queries, keys and values in this order, (rows, positions, n, heads, size): in one tensor, two
    or three. So are their gradients, which nobody need put together then. A query sees the keys whose sentence
    in `answering` is its own in `asking`, and all if that is 0.
    """
    queries, keys, values = _apart(parts)
    out, logs = _room(parts)
    _launch(_forward, (queries, keys, values, _heads(out)), causal, asking, answering, logs, scale * LOG2_E)
    return out, logs


@tile_attention.register_fake
def _(parts: list[Tensor], *others: Any) -> tuple[Tensor, Tensor]:
    return _room(parts)


@torch.library.custom_op("clearhead::attend_in_tiles_backwards", mutates_args=())
def attend_backwards(
    gradient: Tensor, parts: list[Tensor], asking: Tensor, answering: Tensor,
    out: Tensor, logs: Tensor, causal: bool, scale: float,
) -> list[Tensor]:  # fmt: skip
    """The gradients at the parts."""
    gradients = _slopes(parts)
    tensors = (*_apart(parts), _heads(out), _heads(gradient), *_apart(gradients))
    _launch(_backward, tensors, causal, asking, answering, logs, scale * LOG2_E, scale)
    return gradients


@attend_backwards.register_fake
def _(gradient: Tensor, parts: list[Tensor], *others: Any) -> list[Tensor]:
    return _slopes(parts)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    parts, asking, answering, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(*parts, asking, answering, *output)


def _derive(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[list[Tensor] | None, ...]:
    *parts, asking, answering, out, logs = ctx.saved_tensors
    gradients = attend_backwards(gradient, parts, asking, answering, out, logs, ctx.causal, ctx.scale)
    return gradients, None, None, None, None


tile_attention.register_autograd(_derive, setup_context=_keep)


def _launch(
    kernel: Any, tensors: Sequence[Tensor], causal: bool, asking: Tensor, answering: Tensor, *more: Any
) -> None:
    """Programs for each head of each row: forwards one for every 64 queries, backwards one for all."""
    (rows, heads, positions, size), length = tensors[0].shape, tensors[1].shape[2]
    asks, answers = (max(16, triton.next_power_of_2(count)) for count in (positions, length))
    if kernel is _forward:
        asks = min(asks, HALF)
    else:
        answers = min(answers, HALF)
    # Measured: so wide a tile wants more threads, with few enough numbers each that two programs share a
    # processor.
    wide = {"num_warps": 8, "maxnreg": 128, "num_stages": 2} if asks > HALF else {"num_warps": 4}
    tensors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]
    kernel[rows * heads, triton.cdiv(positions, asks)](
        *tensors,
        *(tensor.stride()[:3] for tensor in tensors),
        asking.contiguous(),
        answering.contiguous(),
        *more,
        *(heads, positions, length, asks, answers, size, causal),
        **wide,
    )


def _apart(parts: Sequence[Tensor]) -> list[Tensor]:
    """Queries, keys and values, each (rows, heads, positions, size)."""
    return [_heads(one) for part in parts for one in part.unbind(2)]


def _heads(part: Tensor) -> Tensor:
    return part.transpose(1, 2)


def _room(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    rows, positions, _, heads, size = parts[0].shape
    return parts[0].new_empty(rows, positions, heads, size), parts[0].new_empty(
        rows, heads, positions, dtype=torch.float32
    )


def _slopes(parts: Sequence[Tensor]) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]

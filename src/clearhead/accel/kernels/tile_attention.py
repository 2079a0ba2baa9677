"""Attention within short rows of several sentences: one kernel forward, one backward.

A general kernel loops over tiles and needs several backward passes, so that no two programs write to one
position. A short row is a single tile: a program holds one head of one row, reads every number once and
writes every result once.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# e^x is computed as 2^(x log₂ e), for which there is an instruction.
LOG2_E = 1.4426950408889634
# Positions per program of the longest rows: queries forward, keys backward.
HALF = 64


@triton.jit
def _load(base, row, head, strides, first, positions: tl.constexpr, tile: tl.constexpr, size: tl.constexpr):
    """Positions of one head of one row, (tile, size); zeros after the last position."""
    position = first + tl.arange(0, tile)[:, None]
    at = row * strides[0] + head * strides[1] + position * strides[2] + tl.arange(0, size)[None, :]
    return tl.load(base + at, mask=position < positions, other=0.0)


@triton.jit
def _store(
    base, row, head, strides, first, value, positions: tl.constexpr, tile: tl.constexpr, size: tl.constexpr
):  # fmt: skip
    position = first + tl.arange(0, tile)[:, None]
    at = row * strides[0] + head * strides[1] + position * strides[2] + tl.arange(0, size)[None, :]
    tl.store(base + at, value.to(base.dtype.element_ty), mask=position < positions)


@triton.jit
def _scores(
    q, k, own, key_segments, row, first, after, scale,
    keys: tl.constexpr, query_tile: tl.constexpr, key_tile: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    """Base-2 scores of the queries from `first` on, of segments `own`, and the keys from `after` on.

    Minus infinity where a query does not attend to a key.
    """
    i, j = first + tl.arange(0, query_tile), after + tl.arange(0, key_tile)
    own = own[:, None]
    other = tl.load(key_segments + row * keys + j, mask=j < keys, other=-1)[None, :]
    allowed = (own == other) | ((own == 0) & (other >= 0))
    if causal:
        allowed = allowed & (i[:, None] >= j[None, :])
    return tl.where(allowed, tl.dot(q, tl.trans(k)) * scale, float("-inf"))


@triton.jit
def _forward(
    q_base, k_base, v_base, out, q_strides, k_strides, v_strides, out_strides,
    query_segments, key_segments, logs, scale, heads,
    queries: tl.constexpr, keys: tl.constexpr, query_tile: tl.constexpr, key_tile: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    first = tl.program_id(1) * query_tile
    q = _load(q_base, row, head, q_strides, first, queries, query_tile, size)
    k = _load(k_base, row, head, k_strides, 0, keys, key_tile, size)
    v = _load(v_base, row, head, v_strides, 0, keys, key_tile, size)
    i = first + tl.arange(0, query_tile)
    own = tl.load(query_segments + row * queries + i, mask=i < queries, other=0)
    scores = _scores(q, k, own, key_segments, row, first, 0, scale, keys, query_tile, key_tile, causal)
    highest = tl.max(scores, 1)
    weights = tl.exp2(scores - highest[:, None])
    total = tl.sum(weights, 1)
    output = tl.dot(weights.to(v.dtype), v) / total[:, None]
    _store(out, row, head, out_strides, first, output, queries, query_tile, size)
    tl.store(logs + (row * heads + head) * queries + i, highest + tl.log2(total), mask=i < queries)


@triton.jit
def _backward(
    q_base, k_base, v_base, out, gradient_base, q_gradient, k_gradient, v_gradient,
    q_strides, k_strides, v_strides, out_strides, gradient_strides,
    q_gradient_strides, k_gradient_strides, v_gradient_strides,
    query_segments, key_segments, logs, scale, scale_e, heads,
    queries: tl.constexpr, keys: tl.constexpr, query_tile: tl.constexpr, key_tile: tl.constexpr,
    size: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    """All queries of one head of one row, with as many keys at a time as fit in registers."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    gradient = _load(gradient_base, row, head, gradient_strides, 0, queries, query_tile, size)
    output = _load(out, row, head, out_strides, 0, queries, query_tile, size)
    # The softmax gradient subtracts the weighted mean of the gradients at its outputs.
    mean = tl.sum(output.to(tl.float32) * gradient.to(tl.float32), 1)
    q = _load(q_base, row, head, q_strides, 0, queries, query_tile, size)
    i = tl.arange(0, query_tile)
    log = tl.load(logs + (row * heads + head) * queries + i, mask=i < queries, other=0.0)
    own = tl.load(query_segments + row * queries + i, mask=i < queries, other=0)
    total = tl.zeros((query_tile, size), tl.float32)
    for after in tl.range(0, keys, key_tile):
        k = _load(k_base, row, head, k_strides, after, keys, key_tile, size)
        scores = _scores(q, k, own, key_segments, row, 0, after, scale, keys, query_tile, key_tile, causal)
        weights = tl.exp2(scores - log[:, None]).to(k.dtype)
        v_new = tl.dot(tl.trans(weights), gradient)
        _store(v_gradient, row, head, v_gradient_strides, after, v_new, keys, key_tile, size)
        v = _load(v_base, row, head, v_strides, after, keys, key_tile, size)
        inner = (weights * (tl.dot(gradient, tl.trans(v)) - mean[:, None]) * scale_e).to(v.dtype)
        k_new = tl.dot(tl.trans(inner), q)
        _store(k_gradient, row, head, k_gradient_strides, after, k_new, keys, key_tile, size)
        total = tl.dot(inner, k, total)
    _store(q_gradient, row, head, q_gradient_strides, 0, total, queries, query_tile, size)


@torch.library.custom_op("clearhead::tile_attention", mutates_args=())
def tile_attention(
    parts: list[Tensor], query_segments: Tensor, key_segments: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """The head outputs, (rows, positions, heads, size), and the log-sums that the backward pass needs.

    The parts are queries, keys and values in this order, (rows, positions, n, heads, size), in one, two or
    three tensors; so are their gradients, which need no concatenation then. A query attends to the keys of
    its own segment, and to all keys if its segment is 0.
    """
    out, logs = _empty_outputs(parts)
    tensors = (*_split(parts), _heads(out))
    _launch(_forward, tensors, causal, query_segments, key_segments, logs, scale * LOG2_E)
    return out, logs


@tile_attention.register_fake
def _(parts: list[Tensor], *others: Any) -> tuple[Tensor, Tensor]:
    return _empty_outputs(parts)


@torch.library.custom_op("clearhead::tile_attention_backward", mutates_args=())
def tile_attention_backward(
    gradient: Tensor, parts: list[Tensor], query_segments: Tensor, key_segments: Tensor,
    out: Tensor, logs: Tensor, causal: bool, scale: float,
) -> list[Tensor]:  # fmt: skip
    """The gradients of the parts."""
    gradients = [part.new_empty(part.shape) for part in parts]
    tensors = (*_split(parts), _heads(out), _heads(gradient), *_split(gradients))
    _launch(_backward, tensors, causal, query_segments, key_segments, logs, scale * LOG2_E, scale)
    return gradients


@tile_attention_backward.register_fake
def _(gradient: Tensor, parts: list[Tensor], *others: Any) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    parts, query_segments, key_segments, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(*parts, query_segments, key_segments, *output)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[list[Tensor] | None, ...]:
    *parts, query_segments, key_segments, out, logs = ctx.saved_tensors
    saved = (parts, query_segments, key_segments, out, logs)
    return tile_attention_backward(gradient, *saved, ctx.causal, ctx.scale), None, None, None, None


tile_attention.register_autograd(_differentiate, setup_context=_save)


def _launch(
    kernel: Any, tensors: Sequence[Tensor], causal: bool,
    query_segments: Tensor, key_segments: Tensor, *more: Any,
) -> None:  # fmt: skip
    """Launches one program per head and row; forward, one per tile of queries."""
    (rows, heads, positions, size), length = tensors[0].shape, tensors[1].shape[2]
    query_tile, key_tile = (max(16, triton.next_power_of_2(count)) for count in (positions, length))
    if kernel is _forward:
        query_tile = min(query_tile, HALF)
    else:
        key_tile = min(key_tile, HALF)
    # Measured: wide tiles need more threads, with few enough registers that two programs share a processor.
    wide = {"num_warps": 8, "maxnreg": 128, "num_stages": 2} if query_tile > HALF else {"num_warps": 4}
    tensors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]
    kernel[rows * heads, triton.cdiv(positions, query_tile)](
        *tensors, *(tensor.stride()[:3] for tensor in tensors),
        query_segments.contiguous(), key_segments.contiguous(), *more,
        heads, positions, length, query_tile, key_tile, size, causal,
        **wide,
    )  # fmt: skip


def _split(parts: Sequence[Tensor]) -> list[Tensor]:
    """Queries, keys and values, each (rows, heads, positions, size)."""
    return [_heads(one) for part in parts for one in part.unbind(2)]


def _heads(part: Tensor) -> Tensor:
    return part.transpose(1, 2)


def _empty_outputs(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    rows, positions, _, heads, size = parts[0].shape
    logs = parts[0].new_empty(rows, heads, positions, dtype=torch.float32)
    return parts[0].new_empty(rows, positions, heads, size), logs

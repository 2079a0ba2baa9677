"""The log-sum-exp of long rows of logits and the largest of each chunk, in one pass.

Torch reads and writes all logits several times for a log-softmax and a top-k. A search needs few of them: the
best tokens are in the chunks with the largest maxima.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from torch import Tensor

# Columns in a chunk, and chunks per program.
CHUNK, CHUNKS = 128, 16


@triton.jit
def _summarize(
    logits, sums, maxima, columns, row_stride, chunks, parts, chunk: tl.constexpr, tile: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    number = part * tile + tl.arange(0, tile)
    column = number[:, None] * chunk + tl.arange(0, chunk)[None, :]
    values = tl.load(logits + row * row_stride + column, mask=column < columns, other=-float("inf"))
    values = values.to(tl.float32)
    largest = tl.max(values, 1)
    tl.store(maxima + row * chunks + number, largest, mask=number < chunks)
    # A part of -inf alone must not become NaN; a NaN stays one.
    top = tl.max(largest, 0)
    shift = tl.where(top == -float("inf"), 0.0, top)
    tl.store(sums + row * parts + part, tl.log(tl.sum(tl.exp(values - shift))) + shift)


def summarize(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of parts of each row, and the maxima of its chunks of CHUNK columns; both fp32."""
    rows, columns = logits.shape
    chunks = triton.cdiv(columns, CHUNK)
    parts = triton.cdiv(chunks, CHUNKS)
    sums, maxima = (
        torch.empty(rows, count, dtype=torch.float32, device=logits.device) for count in (parts, chunks)
    )
    _summarize[(rows, parts)](
        logits, sums, maxima, columns, logits.stride(0), chunks, parts, CHUNK, CHUNKS, num_warps=4
    )
    return sums, maxima

"""Products of a few rows with a matrix (GEMV), as in decoding, followed by bias and activation.

Libraries tile products for many rows. With few, reading the matrix takes all the time, so each program reads
a few rows of it at once.
"""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl
from torch import Tensor

# The widest input that a program can hold, and the elements of the matrix that it reads.
MAX_INPUTS, ELEMENTS = 8192, 2048


@triton.jit
def _multiply(
    x, weight, bias, out, outputs, activation: tl.constexpr,
    rows: tl.constexpr, inputs: tl.constexpr, block: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    number, column = tl.program_id(0) * tile + tl.arange(0, tile), tl.arange(0, block)
    output_mask, input_mask = number < outputs, column < inputs
    offsets = number.to(tl.int64)[:, None] * inputs + column[None, :]
    matrix = tl.load(weight + offsets, mask=output_mask[:, None] & input_mask[None, :], other=0.0)
    matrix = matrix.to(tl.float32)
    for row in tl.static_range(rows):
        vector = tl.load(x + row * inputs + column, mask=input_mask, other=0.0).to(tl.float32)
        total = tl.sum(matrix * vector[None, :], 1)
        if bias is not None:
            total += tl.load(bias + number, mask=output_mask, other=0.0).to(tl.float32)
        if activation == "relu":
            total = tl.where(total < 0, 0.0, total)  # a NaN stays one
        elif activation == "gelu_tanh":  # x σ(2 √(2/π) (x + 0.044715 x³))
            total = total * tl.sigmoid(total * (1.5957691216 + 0.0713548163 * total * total))
        tl.store(out + row * outputs + number, total.to(out.dtype.element_ty), mask=output_mask)


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> Tensor:
    """x Wᵀ + b, then the activation "relu" or "gelu_tanh"; both matrices are contiguous."""
    (rows, inputs), outputs = x.shape, len(weight)
    out, block = x.new_empty(rows, outputs), triton.next_power_of_2(inputs)
    tile = max(1, ELEMENTS // block)
    _multiply[(triton.cdiv(outputs, tile),)](
        x, weight, bias, out, outputs, activation, rows, inputs, block, tile, num_warps=4
    )
    return out

"""Tiled matrix products with the GPU's copy engine (TMA), for kernels that do more than multiply."""

# Triton compiles these functions itself; its types describe neither launches nor constants.
# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from clearhead.accel.kernels import NARROW

# Rows and columns of a tile of the result, and the depth of one step of the product. Measured.
TILE, DEEP = 128, 64
# Compute capability these tiles fit (Hopper): others have less shared memory, or other instructions.
GENERATION = 9
# Matrices and their rows must start at multiples of this many bytes.
ALIGNED = 16


def supports_tiles(*matrices: Tensor) -> bool:
    """Whether the copy engine can load tiles of these matrices; if not, torch multiplies them."""
    first = matrices[0]
    # On a CPU, kernels are interpreted.
    if first.is_cuda and first.dtype not in NARROW:
        return False
    if first.is_cuda and torch.cuda.get_device_capability(first.device)[0] != GENERATION:
        return False
    return all(map(_is_aligned, matrices))


def _is_aligned(matrix: Tensor) -> bool:
    """Whether the matrix is not empty and aligned for the copy engine."""
    row = matrix.shape[-1] * matrix.element_size()
    return matrix.numel() > 0 and row % ALIGNED == 0 and matrix.data_ptr() % ALIGNED == 0


def tiles(matrix: Tensor, rows: int, columns: int) -> Any:
    """The descriptor through which tiles of a matrix are read and written."""
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


@triton.jit
def multiply(total, left, right, row, column, first, width, transposed: tl.constexpr, deep: tl.constexpr):
    """Adds a tile of left · right, or of left · rightᵀ, to the total; `first` is the first row of right."""
    for at in range(0, width, deep):
        other = right.load([column, first + at]).T if transposed else right.load([first + at, column])
        total = tl.dot(left.load([row, at]), other, total)
    return total


@triton.jit
def _sum(first, second, third, weight, out, columns, width, tile: tl.constexpr, deep: tl.constexpr):
    across = tl.cdiv(columns, tile)
    row, column = tl.program_id(0) // across * tile, tl.program_id(0) % across * tile
    total = tl.zeros((tile, tile), tl.float32)
    total = multiply(total, first, weight, row, column, 0, width, False, deep)
    total = multiply(total, second, weight, row, column, width, width, False, deep)
    total = multiply(total, third, weight, row, column, 2 * width, width, False, deep)
    out.store([row, column], total.to(out.dtype))


def sum_of_products(first: Tensor, second: Tensor, third: Tensor, weight: Tensor) -> Tensor:
    """Three matrices side by side times one, without concatenating them."""
    (rows, width), columns = first.shape, weight.shape[1]
    out = first.new_empty(rows, columns)
    _sum[(triton.cdiv(rows, TILE) * triton.cdiv(columns, TILE),)](
        *(tiles(part.contiguous(), TILE, DEEP) for part in (first, second, third)),
        tiles(weight.contiguous(), DEEP, TILE), tiles(out, TILE, TILE),
        columns, width, TILE, DEEP,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out

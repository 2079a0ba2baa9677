"""How matrices lie in memory while a model takes one step after the other."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# How many rows of a matrix may lie together, the fastest first; they must be a part of all its rows.
BLOCKS = (24, 32, 16)
# Matrices of fewer bytes stay in the processor's cache, where it matters little how they lie.
LARGE = 2**20
# Of so many rows and more, a product is worth turning the matrix back for.
MANY = 256


@torch.no_grad()
def pack_linears(model: nn.Module, readout: Tensor) -> None:
    """Lays matrices as a product with one row reads them fastest; values stay.

    On a CPU such a product only reads the matrix, and its speed is that of memory. By row, it adds up a sum
    for each row of the matrix and begins anew at every one; by column, it goes through all in one sweep.
    Measured, that is 1.3 to 1.8 times as fast where rows are many and short, and slower where they are long.
    Large matrices that are modules of their own lie `PackedLinear`, which is faster still.
    """
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is nn.Linear and (block := _block(part.weight)):
                setattr(module, name, PackedLinear(part, block))
    for matrix in [readout, *(one.weight for one in model.modules() if isinstance(one, nn.Linear))]:
        rows, columns = matrix.shape
        if matrix.device.type == "cpu" and rows >= columns:
            matrix.data = matrix.data.t().contiguous().t()


class PackedLinear(nn.Module):
    """A linear layer whose matrix lies in blocks of rows, and each of them by column.

    A product with one row then reads memory from the first number to the last, as fast as it comes: 1.1 to
    1.5 times as fast as by column.
    """

    def __init__(self, linear: nn.Linear, block: int):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.blocks = nn.Parameter(linear.weight.unflatten(0, (-1, block)).mT.contiguous())
        self.bias = linear.bias

    @property
    def weight(self) -> Float[Tensor, "rows columns"]:
        """The matrix as others have it: a copy."""
        return self.blocks.transpose(0, 1).flatten(1).t()

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        rows = x.flatten(0, -2)
        if len(rows) >= MANY:
            return F.linear(x, self.weight, self.bias)
        given = rows.expand(len(self.blocks), *rows.shape)
        if self.bias is None:
            product = torch.bmm(given, self.blocks)
        else:
            bias = self.bias.view(len(self.blocks), 1, -1)
            product = torch.baddbmm(bias, given, self.blocks)
        return product.transpose(0, 1).reshape(*x.shape[:-1], -1)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """What is saved has the names and shapes of the linear layer."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        del destination[f"{prefix}blocks"]
        destination[f"{prefix}weight"] = self.weight if keep_vars else self.weight.detach()


def _block(matrix: Tensor) -> int | None:
    """How many of its rows lie together, if they are to lie in blocks."""
    if matrix.device.type != "cpu" or matrix.dtype != torch.float32 or matrix.nbytes < LARGE:
        return None
    return next((block for block in BLOCKS if len(matrix) % block == 0), None)

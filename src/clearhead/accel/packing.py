"""Copies of models with the layers that decode fastest."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import enabled, kernels, onednn
from clearhead.accel.few_rows import DecodingLinear
from clearhead.accel.int8 import Int8Linear
from clearhead.accel.onednn import OneDNNLinear, by_column
from clearhead.accel.torch_private import modules_within, weight_versions

# Rows per block, the fastest first; the number must divide the rows of the matrix.
BLOCKS = (24, 32, 16)
# Smaller matrices, in bytes, stay in the processor's cache, where the layout matters little.
MIN_BYTES = 2**20
# From this many input rows on, one large product is faster even after unpacking the matrix.
UNPACK_FROM = 256

M = TypeVar("M", bound=nn.Module)


def row_branches(rows: int) -> tuple[bool, bool]:
    """The conditions on the number of input rows by which packed layers branch; a trace takes one side."""
    return rows >= onednn.MIN_ROWS, rows >= UNPACK_FROM


class PackedLinear(nn.Module):
    """A linear layer whose matrix is stored in blocks of rows, each block by column.

    A product with one row then reads memory from start to end: 1.1 to 1.5 times as fast as by column.
    """

    def __init__(self, linear: nn.Linear, block: int):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.blocks = nn.Parameter(linear.weight.unflatten(0, (-1, block)).mT.contiguous())
        self.bias = linear.bias

    @property
    def weight(self) -> Float[Tensor, "rows columns"]:
        """A copy of the matrix in its usual layout."""
        return self.blocks.transpose(0, 1).flatten(1).t()

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        rows = x.flatten(0, -2)
        if len(rows) >= UNPACK_FROM:
            return F.linear(x, self.weight, self.bias)
        inputs = rows.expand(len(self.blocks), *rows.shape)
        if self.bias is None:
            product = torch.bmm(inputs, self.blocks)
        else:
            product = torch.baddbmm(self.bias.view(len(self.blocks), 1, -1), inputs, self.blocks)
        return product.transpose(0, 1).reshape(*x.shape[:-1], -1)


class PackedProjections(nn.Module):
    """Several matrices stacked into one; each range of them is packed when it is first used."""

    def __init__(self, linear: nn.Linear, sizes: Sequence[int], layer: Callable[..., nn.Module]):
        super().__init__()
        self.sizes, self.layer, self._whole = tuple(sizes), layer, [linear]
        self.ranges = nn.ModuleDict()

    def forward(self, x: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        name = f"{first}:{'' if last is None else last}"
        if name not in self.ranges:
            [whole] = self._whole
            rows = slice(sum(self.sizes[:first]), sum(self.sizes[:last]))
            bias = None if whole.bias is None else whole.bias[rows]
            self.ranges[name] = self.layer(whole.weight[rows], bias)
        return self.ranges[name](x)


@torch.inference_mode(False)
@torch.no_grad()
def packed_copy(model: M, readout: Tensor) -> M:
    """A copy with packed matrices, which shares all other tensors; the model itself if there are none.

    On a CPU, a product with one row only reads the matrix, at the speed of memory. Stored by row, every row
    is a new sum; stored by column, the matrix is read in one sweep: 1.3 to 1.8 times as fast where rows are
    many and short, slower where they are long. Large matrices become `PackedLinear`, which is faster still.
    Where oneDNN is faster, it takes over.
    """
    if onednn.is_faster() and readout.device.type == "cpu" and readout.dtype == torch.float32:
        return _onednn_copy(model, readout)
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    unpacked = [linear.weight for linear in linears if not _block(linear)]
    stored_by_column = {
        id(matrix): nn.Parameter(by_column(matrix), matrix.requires_grad)
        for matrix in [readout, *unpacked]
        if enabled() and matrix.device.type == "cpu" and matrix.shape[0] >= matrix.shape[1]
    }
    if len(unpacked) == len(linears) and not stored_by_column:
        return model

    def packed(linear: nn.Linear, parent: nn.Module) -> nn.Module | None:
        return PackedLinear(linear, block) if (block := _block(linear)) else None

    return _copy(model, packed, stored_by_column)


@torch.inference_mode(False)
@torch.no_grad()
def int8_copy(model: M, readout: Tensor) -> M:
    """A copy with int8 matrices, which shares all other tensors; embeddings stay as they are."""

    def packed(linear: nn.Linear, parent: nn.Module) -> nn.Module:
        if sizes := getattr(linear, "sizes", None):
            return PackedProjections(linear, sizes, Int8Linear)
        follows_relu = (
            getattr(parent, "activation", None) is F.relu and getattr(parent, "outer", None) is linear
        )
        return Int8Linear(linear.weight, linear.bias, nonnegative=follows_relu)

    return _with_readout(_copy(model, packed), readout, Int8Linear)


def _onednn_copy(model: M, readout: Tensor) -> M:
    """A copy whose matrices are multiplied by oneDNN, which shares all other tensors."""

    def packed(linear: nn.Linear, parent: nn.Module) -> nn.Module | None:
        if linear.weight.dtype != torch.float32:
            return None
        if sizes := getattr(linear, "sizes", None):
            return PackedProjections(linear, sizes, OneDNNLinear)
        return OneDNNLinear(linear.weight, linear.bias)

    return _with_readout(_copy(model, packed), readout, OneDNNLinear)


@torch.inference_mode(False)
@torch.no_grad()
def bf16_copy(model: M, readout: Tensor) -> M:
    """A copy in bfloat16, which shares integer and bfloat16 tensors; on a GPU, with layers for few rows."""
    tensors = [tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.is_floating_point()]
    others = {id(tensor): _in_bf16(tensor) for tensor in tensors if tensor.dtype != torch.bfloat16}
    on_gpu = kernels.supports_decoding(readout)

    def packed(linear: nn.Linear, parent: nn.Module) -> nn.Module | None:
        if not on_gpu:
            return None
        if sizes := getattr(linear, "sizes", None):
            return PackedProjections(linear, sizes, DecodingLinear)
        return DecodingLinear(linear.weight, linear.bias)

    return _copy(model, packed, others)


def _in_bf16(tensor: Tensor) -> Tensor:
    narrow = tensor.to(torch.bfloat16)
    return nn.Parameter(narrow, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else narrow


COPIES: dict[str, Callable[[Any, Tensor], Any]] = {"fp32": packed_copy, "int8": int8_copy, "bf16": bf16_copy}
"""The function that copies a model for decoding, by precision."""


class Packed(Generic[M]):
    """The copy of a model for decoding, made when it is first needed and again after the weights changed."""

    def __init__(self, model: M, readout: Tensor, precision: str = "fp32"):
        self.model, self.readout, self.precision = model, readout, precision
        self._copy: M | None = None
        self._versions: list[tuple[int, int]] = []

    def current(self) -> M:
        """The copy with the model's weights of now."""
        versions = weight_versions(modules_within(self.model))
        if self._copy is None or versions != self._versions:
            made: M = COPIES[self.precision](self.model, self.readout)
            self._copy, self._versions = made, versions
        return self._copy


def _copy(
    model: M,
    packed: Callable[[nn.Linear, nn.Module], nn.Module | None],
    replaced: dict[int, Any] | None = None,
) -> M:
    """A copy that shares all tensors but the replaced ones, with packed linear layers where there are any."""
    # Found in the memo, a tensor is taken as it is.
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    # Each module has a dozen empty dictionaries for hooks, which would take deepcopy most of its time.
    fields = [value for module in model.modules() for value in vars(module).values()]
    empty = {id(value): type(value)() for value in fields if type(value) in (dict, OrderedDict) and not value}
    copy = deepcopy(model, {**shared, **empty, **(replaced or {})})
    for module in list(copy.modules()):
        for name, linear in list(module.named_children()):
            if isinstance(linear, nn.Linear) and (new := packed(linear, module)) is not None:
                setattr(module, name, new)
    return copy


def _with_readout(copy: M, readout: Tensor, layer: Callable[..., nn.Module]) -> M:
    """The copy with a layer instead of the matrix of its readout; embeddings stay as they are."""
    for module in copy.modules():
        if module._parameters.get("readout_weight") is readout:
            del module.readout_weight
            module.readout_weight = layer(readout)
    return copy


def _block(linear: nn.Linear) -> int | None:
    """Rows per block; None if the layer stays as it is."""
    weight = linear.weight
    if type(linear) is not nn.Linear or weight.dtype != torch.float32 or weight.nbytes < MIN_BYTES:
        return None
    if not enabled() or weight.device.type != "cpu":
        return None
    return next((block for block in BLOCKS if len(weight) % block == 0), None)

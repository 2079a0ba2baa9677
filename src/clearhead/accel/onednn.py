"""Matrix products by oneDNN in fp32: with AVX-512 where MKL, which torch uses, has only AVX2.

MKL uses AVX-512 only on Intel's processors; on others, oneDNN's products of several rows take half the time.
"""

import functools
import re
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.accel import enabled

# With fewer input rows, MKL's products with small matrices take less time.
MIN_ROWS = 3
# Larger matrices, in bytes, are read as fast for a single row.
LARGE = 2**22
CPUINFO, INTEL = Path("/proc/cpuinfo"), "GenuineIntel"
# The call as a graph, because a trace cannot record its empty list.
_GRAPH = """graph(%x : Tensor, %weight : Tensor, %bias : Tensor?):
  %activation : str = prim::Constant[value="none"]()
  %scalars : Scalar?[] = prim::ListConstruct()
  %algorithm : NoneType = prim::Constant()
  %y : Tensor = mkldnn::_linear_pointwise(%x, %weight, %bias, %activation, %scalars, %algorithm)
  return (%y)
"""


@functools.cache
def is_faster() -> bool:
    """Whether this processor has AVX-512 and MKL does not use it."""
    if not (enabled() and torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return False
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and _vendor() not in ("", INTEL)


def _vendor() -> str:
    """The vendor of the processor as Linux reports it; empty if unknown."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^vendor_id\s*:\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


class OneDNNLinear(nn.Module):
    """A linear layer with its matrix in oneDNN's layout."""

    def __init__(self, weight: Float[Tensor, "rows columns"], bias: Float[Tensor, " rows"] | None = None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else bias.detach()
        self._packed: Tensor
        self.register_buffer("_packed", torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None))
        self._few: Tensor | None
        self.register_buffer("_few", None if weight.nbytes >= LARGE else by_column(weight.detach()))

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        if self._few is not None and x.shape[:-1].numel() < MIN_ROWS:
            return F.linear(x, self._few, self.bias)
        return _product()(x, self._packed, self.bias)


def by_column(weight: Tensor) -> Tensor:
    """The matrix, stored by column if it is not wide: a product with one row then reads it faster."""
    return weight.t().contiguous().t() if weight.shape[0] >= weight.shape[1] else weight


@functools.cache
def _product() -> Any:
    """`F.linear` for a packed matrix."""
    return torch._C._create_function_from_graph("onednn_linear", torch._C.parse_ir(_GRAPH))

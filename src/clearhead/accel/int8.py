"""Int8 matrix products on a CPU: packed weights with a scale per row, activations with a scale per vector."""

import functools
import warnings

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.accel import enabled
from clearhead.accel.quantization import LARGEST
from clearhead.accel.torch_private import quantized_matrix

# Activations become unsigned bytes: around this zero point, or from 0 on if none is negative.
ZERO_POINT, LARGEST_UNSIGNED = 128, 255
# Keeps the scale of a vector of zeros above zero.
MIN_SCALE = 1e-30
# Calling the overload itself takes a third of the time of a call that torch resolves.
_int8_linear = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default


@functools.cache
def supported() -> bool:
    """Whether this processor has fast int8 products, whose sums cannot overflow."""
    # Without VNNI, pairs of products are added in 16 bits, which overflow.
    return (
        enabled()
        and "fbgemm" in torch.backends.quantized.supported_engines
        and torch.cpu._is_vnni_supported()
    )


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and dynamic quantization: one scale per row, and one per input vector.

    Sums are exact integers, so the result for a vector does not depend on the rest of the batch. Inputs that
    are never negative, such as those after a ReLU, are rounded to steps half as large.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Float[Tensor, " rows"] | None = None,
        nonnegative: bool = False,
    ):
        """`weight` is a matrix of fp32, or one that is quantized already."""
        super().__init__()
        self.bias: Tensor | None
        self.nonnegative = nonnegative
        self._step, self._zero_point = (1 / LARGEST_UNSIGNED, 0) if nonnegative else (1 / LARGEST, ZERO_POINT)
        self.out_features, self.in_features = weight.shape
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)
        quantized = weight if weight.is_quantized else _quantized(weight)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def forward(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch rows"]:
        scales = (x if self.nonnegative else x.abs()).amax(-1, keepdim=True).clamp_(min=MIN_SCALE)
        product = _int8_linear(x / scales, self._step, self._zero_point, self._packed)
        if self.bias is None:
            return product.mul_(scales)
        return torch.addcmul(self.bias, product, scales, out=product)


class Int8Rows:
    """An int8 matrix, for layers of some of its rows; their results equal those of the whole matrix."""

    def __init__(self, weight: Float[Tensor, "rows columns"]):
        quantized = _quantized(weight)
        self.values, self.scales = quantized.int_repr(), quantized.q_per_channel_scales()

    def layer(self, rows: Int[Tensor, " chosen"]) -> Int8Linear:
        return Int8Linear(quantized_matrix(self.values[rows], self.scales[rows]))


def _quantized(weight: Float[Tensor, "rows columns"]) -> Tensor:
    """The matrix as int8, with a scale per row."""
    scales = weight.abs().amax(1).clamp(min=MIN_SCALE) / LARGEST
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        # Quantized tensors are deprecated, but the packed products accept nothing else.
        warnings.simplefilter("ignore")
        return torch.quantize_per_channel(weight.float(), scales.double(), zeros, 0, torch.qint8)


def linear(
    x: Float[Tensor, "*batch columns"],
    matrix: Tensor | nn.Module,
    bias: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, "*batch rows"]:
    """`F.linear` with a matrix, or with the module that replaces it in a copy for decoding."""
    if isinstance(matrix, Tensor):
        return F.linear(x, matrix, bias)
    return matrix(x) if bias is None else matrix(x) + bias

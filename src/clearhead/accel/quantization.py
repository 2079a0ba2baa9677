"""Int8 weights: each matrix row as integers from -127 to 127 and one scale."""

from collections.abc import Mapping

import torch
from torch import Tensor

from clearhead.errors import ModelError

LARGEST = 127
# The scales of a matrix are stored under its name plus this.
SCALES = ".scales"


def quantize(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as int8 with one scale per row; all other tensors unchanged.

    No value moves by more than half its row's scale, and quantizing again changes nothing.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim == 2 and tensor.is_floating_point():
            rows = tensor.float()
            scales = rows.abs().amax(dim=1) / LARGEST
            # For a row of zeros any scale will do.
            scales = torch.where(scales > 0, scales, 1.0)
            found[name] = (rows / scales[:, None]).round().to(torch.int8)
            found[name + SCALES] = scales
        else:
            found[name] = tensor
    return found


def dequantize(values: Mapping[str, Tensor], location: str) -> dict[str, Tensor]:
    """Int8 matrices as floats, all other tensors unchanged; errors name `location`, the file."""
    found = dict(values)
    for name in [name for name, tensor in values.items() if tensor.dtype == torch.int8]:
        scales = found.pop(name + SCALES, None)
        problem = None
        if scales is None:
            problem = f"{name} is int8, but {name + SCALES} is missing"
        elif scales.shape != values[name].shape[:1] or not scales.is_floating_point():
            problem = f"{name + SCALES} does not have one number per row"
        elif not bool((scales.isfinite() & (scales > 0)).all()):
            problem = f"{name + SCALES} has a scale that is not above 0"
        if scales is None or problem:
            raise ModelError(f"{location}: {problem}; copy the file again")
        found[name] = values[name].float() * scales.float()[:, None]
    return found

"""Weights in a byte each: every row of a matrix as whole numbers from -127 to 127 and one scale; and back."""

from collections.abc import Mapping

import torch
from torch import Tensor

from clearhead.errors import ModelError

LARGEST = 127
# The scales of a matrix are stored under its name and this.
SCALES = ".scales"


def rounded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as int8 with a scale for each row; vectors, which are few numbers, stay as they are.

    No number is moved by more than half of its row's scale, and rounding again changes nothing.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim == 2 and tensor.is_floating_point():
            rows = tensor.float()
            scales = rows.abs().amax(dim=1) / LARGEST
            # A row of zeros has no scale of its own; any will do.
            scales = torch.where(scales > 0, scales, 1.0)
            found[name] = (rows / scales[:, None]).round().to(torch.int8)
            found[name + SCALES] = scales
        else:
            found[name] = tensor
    return found


def restored(values: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """The weights that were rounded, as numbers again, and the others as they are; `place` is their file."""
    found = dict(values)
    for name in [name for name, tensor in values.items() if tensor.dtype == torch.int8]:
        scales = found.pop(name + SCALES, None)
        if scales is None:
            raise ModelError(f"{place}: {name} is int8, but {name + SCALES} is missing; copy the file again")
        if scales.shape != values[name].shape[:1] or not scales.is_floating_point():
            raise ModelError(f"{place}: {name + SCALES} is not one number for each row; copy the file again")
        if not bool((scales.isfinite() & (scales > 0)).all()):
            raise ModelError(f"{place}: {name + SCALES} has a scale that is not above 0; copy the file again")
        found[name] = values[name].float() * scales.float()[:, None]
    return found

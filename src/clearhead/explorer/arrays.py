"""Tensors as the bytes that a page reads: a slice, pooled for small pictures, in one of three types."""

import base64
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import SettingsError

TYPES = ("f32", "f16", "u8s")


@dataclass(frozen=True)
class Array:
    """Numbers row by row, little end first."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes

    def record(self) -> dict[str, Any]:
        return {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "data": base64.b64encode(self.data).decode("ascii"),
        }


def array_of(tensor: Tensor, dtype: str = "f32") -> Array:
    """The numbers as they are (f32), in halves (f16), or as round(255·√α) for pictures of weights (u8s)."""
    tensor = tensor.detach().float()
    match dtype:
        case "f32":
            kept = tensor
        case "f16":
            kept = tensor.half()
        case "u8s":
            kept = (tensor.clamp(0, 1).sqrt() * 255).round().byte()
        case _:
            raise SettingsError(f"dtype: {dtype!r} is not one of {', '.join(TYPES)}")
    return Array(tuple(tensor.shape), dtype, kept.cpu().contiguous().numpy().tobytes())


def pooled(tensor: Tensor, most: int) -> Tensor:
    """The last two axes with at most so many cells, each the largest of those it covers."""
    if most < 1:
        raise SettingsError(f"pool: {most} should be at least 1")
    rows, columns = min(most, tensor.shape[-2]), min(most, tensor.shape[-1])
    if (rows, columns) == tuple(tensor.shape[-2:]):
        return tensor
    flat = tensor.reshape(1, -1, *tensor.shape[-2:]).float()
    return torch.nn.functional.adaptive_max_pool2d(flat, (rows, columns)).reshape(
        *tensor.shape[:-2], rows, columns
    )


def sliced(tensor: Tensor, axes: tuple[str, ...], chosen: dict[str, int | None]) -> Tensor:
    """One entry of each axis that is chosen, which is then gone."""
    for axis, number in chosen.items():
        if number is None:
            continue
        if axis not in axes:
            raise SettingsError(f"{axis}: this tensor has no such axis, only {', '.join(axes)}")
        at = axes.index(axis)
        if not 0 <= number < tensor.shape[at]:
            raise SettingsError(f"{axis}: {number} is not from 0 to {tensor.shape[at] - 1}")
        tensor = tensor.select(at, number)
        axes = (*axes[:at], *axes[at + 1 :])
    return tensor

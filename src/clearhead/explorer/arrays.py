"""Tensors as bytes for the page: sliced, pooled for thumbnails, in one of three types."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import SettingsError

ENCODERS: dict[str, Callable[[Tensor], Tensor]] = {
    "f32": Tensor.float,
    "f16": Tensor.half,
    "u8s": lambda weights: (weights.clamp(0, 1).sqrt() * 255).round().byte(),
}


@dataclass(frozen=True)
class Array:
    """Numbers in row-major order, little-endian."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes

    def record(self) -> dict[str, Any]:
        data = base64.b64encode(self.data).decode("ascii")
        return {"dtype": self.dtype, "shape": list(self.shape), "data": data}


def array_of(tensor: Tensor, dtype: str = "f32") -> Array:
    """A tensor as f32, as f16, or as round(255·√α) in one byte (u8s) for pictures of weights."""
    tensor = tensor.detach().float()
    if dtype not in ENCODERS:
        raise SettingsError(f"dtype: {dtype!r} is not one of {', '.join(ENCODERS)}")
    encoded = ENCODERS[dtype](tensor)
    return Array(tuple(tensor.shape), dtype, encoded.cpu().contiguous().numpy().tobytes())


def max_pool(tensor: Tensor, limit: int) -> Tensor:
    """The last two axes reduced to at most `limit` cells each; a cell is the maximum of what it covers."""
    if limit < 1:
        raise SettingsError(f"pool: {limit} should be at least 1")
    rows, columns = min(limit, tensor.shape[-2]), min(limit, tensor.shape[-1])
    if (rows, columns) == tuple(tensor.shape[-2:]):
        return tensor
    flat = tensor.reshape(1, -1, *tensor.shape[-2:]).float()
    small = torch.nn.functional.adaptive_max_pool2d(flat, (rows, columns))
    return small.reshape(*tensor.shape[:-2], rows, columns)


def select(tensor: Tensor, axes: tuple[str, ...], chosen: dict[str, int | None]) -> Tensor:
    """One index of each chosen axis; these axes are gone from the result."""
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

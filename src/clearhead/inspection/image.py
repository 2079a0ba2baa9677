"""An image as a model reads it: its pixels, and the grid of patches that are the positions of a side."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.layers.patches import LinearPatches, PatchEmbedding
from clearhead.models.vit import ViTConfig

COMPONENTS, MAX_FILTERS = 28, 64
"""The most principal components of a patch embedding, and filters of a stem, that are shown."""
Filters = Float[Tensor, "filters 3 height width"]
CLASS = "[CLS]"
"""The name of a position before the patches, as Dosovitskiy et al. (2021) call it."""


@dataclass(frozen=True, eq=False)
class PatchImage:
    """An image cut into patches, row by row; positions of a class token come before them."""

    pixels: UInt8[Tensor, "height width 3"]
    """As the model sees them: cropped and scaled to its size, before normalisation."""
    grid: tuple[int, int]
    """Rows and columns of patches."""
    before: int = 0
    """Positions before the first patch: 1 with a class token."""

    @property
    def patches(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def names(self) -> list[str]:
        """The name of each position: `[CLS]`, then `row,column` of each patch, from 0."""
        rows, columns = self.grid
        return [CLASS] * self.before + [f"{row},{column}" for row in range(rows) for column in range(columns)]

    def record(self) -> dict[str, Any]:
        """Its sizes as JSON."""
        height, width, _ = self.pixels.shape
        return {"height": height, "width": width, "grid": list(self.grid), "before": self.before}

    def position(self, row: int, column: int) -> int:
        """The position of a patch."""
        rows, columns = self.grid
        if not (0 <= row < rows and 0 <= column < columns):
            raise SettingsError(f"patch: {row},{column} is outside the image; it has {rows} × {columns}")
        return self.before + row * columns + column

    def on_grid(self, values: Float[Tensor, "*batch positions"]) -> Float[Tensor, "*batch rows columns"]:
        """Values of all positions as a map of the image; those of a class token are left out."""
        return values[..., self.before :].unflatten(-1, self.grid)

    def centres(self) -> Float[Tensor, "patches 2"]:
        """The row and column of each patch's centre, in pixels."""
        height, width, _ = self.pixels.shape
        rows, columns = self.grid
        down = (torch.arange(rows) + 0.5) * height / rows
        across = (torch.arange(columns) + 0.5) * width / columns
        return torch.cartesian_prod(down, across).view(-1, 2)


def patch_image(pixels: UInt8[Tensor, "3 height width"], config: ViTConfig) -> PatchImage:
    """The pixels of an image with the patches of a vision Transformer."""
    return PatchImage(pixels.permute(1, 2, 0).cpu(), (config.side, config.side), config.class_tokens)


def attention_distance(
    weights: Float[Tensor, "heads positions positions"], image: PatchImage
) -> Float[Tensor, " heads"]:
    """The mean distance, in pixels, of a patch from the patches it attends to (Dosovitskiy et al. 2021).

    The weights between patches alone count, and are divided by their sum; a query without any has none.
    """
    between = weights[:, image.before :, image.before :]
    distances = torch.cdist(image.centres(), image.centres())
    total = between.sum(-1)
    mean = (between * distances).sum(-1) / total.clamp(min=1e-12)
    return (mean * (total > 0)).sum(-1) / (total > 0).sum(-1).clamp(min=1)


class PatchFilters(NamedTuple):
    """What an embedding of patches reads pixels with, and what to say about it."""

    filters: Filters
    title: str
    says: str


def patch_filters(embedding: PatchEmbedding) -> PatchFilters:
    """The first principal components of a linear embedding, or the first filters of a convolutional stem."""
    if isinstance(embedding.patches, LinearPatches):
        filters, shares = principal_filters(embedding.patches.weight.detach().float().cpu(), COMPONENTS)
        held = float(shares[: len(filters)].sum())
        title = f"First {len(filters)} principal components of the patch embedding"
        return PatchFilters(filters, title, f"they hold {held:.0%} of the variance of its filters")
    weight = next(one for one in embedding.patches.parameters() if one.dim() == 4)
    filters = weight.detach().float().cpu()[:MAX_FILTERS]
    title = f"First {len(filters)} of {len(weight)} filters of the convolutional stem"
    return PatchFilters(filters, title, f"{weight.shape[-2]} × {weight.shape[-1]} pixels each")


def principal_filters(filters: Filters, count: int) -> tuple[Filters, Float[Tensor, " components"]]:
    """The directions in which filters vary most, and the share of the variance of every direction."""
    rows = filters.flatten(1)
    _, sizes, directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    return directions[:count].unflatten(1, filters.shape[1:]), sizes**2 / (sizes**2).sum().clamp(min=1e-30)


def as_pixels(filter_weights: Float[Tensor, "3 height width"]) -> Float[Tensor, "height width 3"]:
    """Weights as colours from 0 to 1; zero is grey."""
    largest = filter_weights.abs().max().clamp(min=1e-12)
    return (0.5 + filter_weights / largest / 2).permute(1, 2, 0)

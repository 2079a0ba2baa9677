"""Maps over an image: how much each patch counts, drawn over a faded copy of the image."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from clearhead.inspection.image import PatchImage
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, SIGNED, TINY, colour_bar, signed_scale

HEAT = LinearSegmentedColormap.from_list("heat", ["#c2410c00", "#c2410cf2"])
"""One hue, transparent at zero."""
LUMINANCE = (0.299, 0.587, 0.114)
FADED = 0.5
"""How far the image below a map is mixed with white."""
SIDE, TITLE = 1.55, 0.45
"""Inches of a map, and of the lines above it."""
MAX_COLUMNS = 8


class ImageMap(NamedTuple):
    """A number for each patch."""

    title: str
    values: Float[Tensor, "rows columns"]


def overlay_picture(
    title: str, image: PatchImage, maps: Sequence[ImageMap], scale: str, caption: str, alt: str
) -> Picture:
    """The image, and maps over it on one scale from 0 to the largest value of them all."""
    columns = min(len(maps) + 1, MAX_COLUMNS)
    rows = math.ceil((len(maps) + 1) / columns)
    tall = SIDE * image.pixels.shape[0] / image.pixels.shape[1]
    largest = max(float(one.values.max()) for one in maps) or 1.0

    def draw(figure: Figure) -> None:
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        panels[0].imshow(image.pixels.numpy(), interpolation="nearest")
        panels[0].set_title("the image", fontsize=TINY, color=FAINT)
        drawn = None
        for axes, one in zip(panels[1:], maps, strict=False):
            drawn = draw_map(axes, image, one.values, largest)
            axes.set_title(f"{one.title}\nlargest {float(one.values.max()):.3f}", fontsize=TINY, color=FAINT)
            axes.title.set_parse_math(False)
        for axes in panels:
            axes.set_axis_off()
        assert drawn is not None
        colour_bar(figure, drawn, list(panels), scale)  # pyright: ignore[reportArgumentType]

    size = (max(4.4, columns * (SIDE + 0.12) + 0.9), rows * (tall + TITLE) + 1.0)
    return make_picture(title, draw, size, caption, alt)


def draw_map(
    axes: Axes, image: PatchImage, values: Float[Tensor, "rows columns"], largest: float
) -> AxesImage:
    """A map on a square-root scale from 0 to `largest`, over the faded image."""
    height, width, _ = image.pixels.shape
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(faded(image).numpy(), interpolation="nearest", cmap="gray", vmin=0, vmax=1, extent=extent)
    norm = PowerNorm(0.5, vmin=0.0, vmax=largest)
    return axes.imshow(values.numpy(), cmap=HEAT, norm=norm, interpolation="nearest", extent=extent)


def draw_signed_map(axes: Axes, image: PatchImage, values: Float[Tensor, "rows columns"]) -> None:
    """Values that may be negative, each patch as opaque as its value is large, over the faded image."""
    height, width, _ = image.pixels.shape
    extent, largest = (-0.5, width - 0.5, height - 0.5, -0.5), float(values.abs().max()) or 1.0
    axes.imshow(faded(image).numpy(), interpolation="nearest", cmap="gray", vmin=0, vmax=1, extent=extent)
    opaque = (0.9 * values.abs() / largest).sqrt().clamp(max=1).numpy()
    colours = {"cmap": SIGNED, "norm": signed_scale(largest)}
    axes.imshow(values.numpy(), interpolation="nearest", alpha=opaque, extent=extent, **colours)


def faded(image: PatchImage) -> Float[Tensor, "height width"]:
    """The image in light grey, from 0 to 1."""
    grey = (image.pixels.float() / 255 * torch.tensor(LUMINANCE)).sum(-1)
    return FADED + (1 - FADED) * grey


def strongest(image: PatchImage, values: Float[Tensor, "rows columns"], count: int = 3) -> str:
    """The patches with the largest values, as text."""
    flat, columns = values.flatten(), image.grid[1]
    best = flat.topk(min(count, len(flat)))
    at = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return ", ".join(f"{index // columns},{index % columns} ({value:.3f})" for index, value in at)

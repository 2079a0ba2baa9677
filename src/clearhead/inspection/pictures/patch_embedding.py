"""How patches are embedded: the filters that read them, and the similarity of their positions on the grid."""

import math

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from clearhead.inspection.image import as_pixels, patch_filters
from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import SIGNED, SMALL, TINY, colour_bar, signed_scale
from clearhead.inspection.vectors import position_kind, position_similarity

MAX_MAPS = 8
"""The most maps in a row or column of the grid; of larger grids, every second or third patch has one."""


def has_filters(context: PictureContext) -> bool:
    return context.summaries.patch_embedding is not None


def has_grid(context: PictureContext) -> bool:
    found = context.summaries.patch_embedding
    return found is not None and position_kind(found[0].position, found[1].relative) != "none"


def filters_view(context: PictureContext) -> Picture:
    """The filters of the first layer that reads pixels, as small images."""
    found = context.summaries.patch_embedding
    assert found is not None
    filters, title, says = patch_filters(found[0])
    columns = min(len(filters), 14)
    rows = math.ceil(len(filters) / columns)

    def draw(figure: Figure) -> None:
        for axes, one in zip(figure.subplots(rows, columns, squeeze=False).flatten(), filters, strict=False):
            axes.imshow(as_pixels(one).numpy(), interpolation="nearest")
        for axes in figure.axes:
            axes.set_axis_off()

    caption = (
        f"Model {context.subject.model}: {title.lower()} in the colours of their weights, each scaled to its "
        f"own largest weight; grey is zero; {says}."
    )
    alt = f"{title}: {rows} rows of {columns} small images; {says}."
    return make_picture(title, draw, (max(5.0, columns * 0.62), rows * 0.62 + 1.1), caption, alt)


def grid_view(context: PictureContext) -> Picture:
    """For each patch, a map of the similarity of its position to all others."""
    found = context.summaries.patch_embedding
    assert found is not None
    embedding, attention, image = found
    width, device = attention.project.in_features, next(embedding.parameters()).device
    table = position_similarity(embedding.position, attention.relative, len(image.names), width, device)
    assert table is not None
    maps = image.on_grid(table.similarity[image.before :]).unflatten(0, image.grid)
    step = math.ceil(max(image.grid) / MAX_MAPS)
    shown = maps[::step, ::step]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        tiles = _tiled(shown)
        drawn = axes.imshow(tiles.numpy(), cmap=SIGNED, norm=signed_scale(1.0), interpolation="nearest")
        rows, columns = image.grid
        axes.set_xticks([(columns + 1) * n + (columns - 1) / 2 for n in range(shown.shape[1])])
        axes.set_yticks([(rows + 1) * n + (rows - 1) / 2 for n in range(shown.shape[0])])
        axes.set_xticklabels([str(n * step) for n in range(shown.shape[1])])
        axes.set_yticklabels([str(n * step) for n in range(shown.shape[0])])
        axes.set_xlabel("column of the patch", fontsize=SMALL)
        axes.set_ylabel("row of the patch", fontsize=SMALL)
        axes.tick_params(labelsize=TINY, length=0)
        axes.spines[:].set_visible(False)
        colour_bar(figure, drawn, axes, "cosine")

    equal = " of equal vectors rotated to two positions" if table.kind == "rotary" else ""
    every = "" if step == 1 else f", for one patch in {step}"
    caption = (
        f"Model {context.subject.model}: cosine{equal} between the {table.kind} position of a patch and "
        f"those of all patches, as a map of the image{every} (Dosovitskiy et al. 2021, figure 7)."
    )
    beside, far = float(maps[0, 0, 0, 1]), float(maps[0, 0, -1, -1])
    alt = (
        f"Similarity of positions on a grid of {image.grid[0]} × {image.grid[1]} patches. The first patch "
        f"and its right neighbour: {beside:.2f}; the first and the last: {far:.2f}."
    )
    return make_picture(f"Similarity of {table.kind} positions", draw, (6.2, 6.2), caption, alt)


def _tiled(maps: Float[Tensor, "rows columns high wide"]) -> Float[Tensor, "height width"]:
    """All maps in one image, with an empty line between them."""
    padded = torch.nn.functional.pad(maps, (0, 1, 0, 1), value=float("nan"))
    return padded.transpose(1, 2).flatten(2).flatten(0, 1)[:-1, :-1]

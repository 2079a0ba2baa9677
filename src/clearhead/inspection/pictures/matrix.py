"""A matrix of attention weights: its cells, its masked cells, its tokens and its scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Affine2D
from torch import Tensor

from clearhead.inspection.pictures import style
from clearhead.inspection.pictures.context import AttentionView

MAX_NUMBERED = 12
"""Larger matrices have no numbers in their cells."""
MAX_LABELS = 64
"""The most tokens written along a side."""
MAX_GRID = 40
"""Larger matrices have no lines between cells."""
HATCHES = {"comes later": "////", "padding or outside the window": "...."}
"""The hatch of masked cells by `AttentionView.hidden`."""
Cells = Float[Tensor, "queries keys"]
Masked = Bool[Tensor, "queries keys"]
Box = tuple[float, float, float, float]


def draw_weights(axes: Axes, weights: Cells, attention: AttentionView) -> AxesImage:
    """Weights on a square-root scale with tokens and numbers; hatches tell future keys from padding."""
    rows, columns = weights.shape
    image = draw_cells(axes, weights, attention, (-0.5, -0.5, columns, rows))
    for side in axes.spines.values():
        side.set_color(style.GRID)
    label_tokens(axes, attention.queries, attention.keys)
    write_numbers(axes, weights, attention.masked)
    return image


def draw_cells(axes: Axes, weights: Cells, attention: AttentionView, box: Box) -> AxesImage:
    """Weights alone, in a box of left, top, width and height."""
    left, top, width, height = box
    colours = {"cmap": style.WEIGHT, "norm": style.weight_scale()}
    extent = (left, left + width, top + height, top)
    image = axes.imshow(weights.numpy(), extent=extent, aspect="equal", interpolation="nearest", **colours)
    rows, columns = weights.shape
    to_box = Affine2D().scale(width / columns, height / rows).translate(left, top)
    for reason, cells in attention.hidden.items():
        # One patch for all cells: thousands of patches would make a large vector file.
        path = to_box.transform_path(_outline(cells))
        hatched = {"facecolor": "white", "edgecolor": "#c4c4c4", "hatch": HATCHES[reason], "linewidth": 0}
        # As an artist, not a patch, it is skipped when matplotlib searches for the limits of the axes.
        axes.add_artist(PathPatch(path, **hatched))
    if max(rows, columns) <= MAX_GRID:
        lines = [to_box.transform([(0, row), (columns, row)]) for row in range(1, rows)]
        lines += [to_box.transform([(column, 0), (column, rows)]) for column in range(1, columns)]
        axes.add_collection(LineCollection(lines, colors="#eeeeee", linewidths=0.5), autolim=False)
    return image


def label_tokens(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Tokens along both sides, keys above; of many, only every second or third."""
    slanted = {"rotation": 60, "ha": "left", "rotation_mode": "anchor", "parse_math": False}
    axes.set_xticks(range(len(keys)), list(map(style.shortened, keys)), **slanted)
    axes.set_yticks(range(len(queries)), list(map(style.shortened, queries)), parse_math=False)
    size = style.SMALL if max(len(queries), len(keys)) <= 40 else style.TINY
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.tick_params(labelsize=size, length=0, pad=2)
    for axis, count in ((axes.xaxis, len(keys)), (axes.yaxis, len(queries))):
        step = max(1, -(-count // MAX_LABELS))
        for position, tick in enumerate(axis.get_ticklabels()):
            tick.set_visible(position % step == 0)
    # Below, where it has room even if the matrix is low.
    axes.set_xlabel("query ↓ attends to key →", fontsize=style.SMALL, color=style.FAINT)


def write_numbers(axes: Axes, weights: Cells, masked: Masked | None) -> None:
    """Writes the weights into the cells of a small matrix."""
    if max(weights.shape) > MAX_NUMBERED:
        return
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            if masked is None or not masked[row, column]:
                text, colour = f"{weight:.2f}".removeprefix("0"), "white" if weight > 0.3 else "#333333"
                style.write(axes, column, row, text, fontsize=style.TINY, color=colour)


def weight_legend(figure: Figure, image: AxesImage, axes: Axes, name: str = "α", **position: Any) -> None:
    """The scale of weights."""
    scale = style.colour_bar(figure, image, axes, name, ticks=style.TICKS, **position)
    scale.set_yticklabels([f"{tick:g}" for tick in style.TICKS])


def mask_legend(attention: AttentionView) -> list[Patch]:
    """The meaning of the hatches in a matrix."""
    style = {"facecolor": "white", "edgecolor": "#b0b0b0", "linewidth": 0.5}
    return [Patch(hatch=HATCHES[reason], label=f"masked: {reason}", **style) for reason in attention.hidden]


def _outline(cells: Masked) -> Path:
    """The outline of all masked cells, each 1 wide and high."""
    paths = []
    for row, line in enumerate(cells.tolist()):
        changes = np.diff(np.array([False, *line, False]).astype(np.int8))
        starts, ends = (np.flatnonzero(changes == step).tolist() for step in (1, -1))
        for first, last in zip(starts, ends, strict=True):
            corners = [(first, row), (last, row), (last, row + 1), (first, row + 1)]
            paths.append(Path([*corners, corners[0]], closed=True))
    return Path.make_compound_path(*paths)

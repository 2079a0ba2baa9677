"""A matrix of weights or scores: what can be seen of it, what is hidden, and the scale."""

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

from clearhead.inspection.pictures.style import (
    FAINT,
    GRID,
    SMALL,
    TICKS,
    TINY,
    WEIGHT,
    label_places,
    step,
    weight_scale,
    write,
)
from clearhead.inspection.pictures.subject import Seen

# Cells of matrices up to this size have their numbers in them.
NUMBERED = 12
# Beyond so many, not every token can be written.
LABELLED = 64
# Larger ones have no lines between cells.
GRIDDED = 40
LATER, OUTSIDE = "////", "...."
Cells = Float[Tensor, "queries keys"]
Hidden = Bool[Tensor, "queries keys"]
Box = tuple[float, float, float, float]


def draw_weights(axes: Axes, weights: Cells, seen: Seen) -> AxesImage:
    """Weights by their roots with tokens and numbers, masked cells hatched: later ones apart from padding."""
    rows, columns = weights.shape
    image = draw_cells(axes, weights, seen, (-0.5, -0.5, columns, rows))
    for side in axes.spines.values():
        side.set_color(GRID)
    label_tokens(axes, seen.queries, seen.keys)
    number(axes, weights, seen.hidden)
    return image


def draw_cells(axes: Axes, weights: Cells, seen: Seen, at: Box) -> AxesImage:
    """Weights alone, in a box: its left, top, width and height."""
    left, top, width, height = at
    shown = {"cmap": WEIGHT, "norm": weight_scale(), "aspect": "equal", "interpolation": "nearest"}
    image = axes.imshow(weights.numpy(), extent=(left, left + width, top + height, top), **shown)
    rows, columns = weights.shape
    position = Affine2D().scale(width / columns, height / rows).translate(left, top)
    for cells, hatch in ((seen.later, LATER), (seen.outside, OUTSIDE)):
        if cells is not None and bool(cells.any()):
            # One patch for all cells: thousands of them would make a vector file large.
            path = position.transform_path(_outline(cells))
            # As an artist, not a patch: the limits of the axes need not be looked for in it.
            axes.add_artist(PathPatch(path, facecolor="white", edgecolor="#c4c4c4", hatch=hatch, linewidth=0))
    if max(rows, columns) <= GRIDDED:
        lines = [position.transform([(0, row), (columns, row)]) for row in range(1, rows)]
        lines += [position.transform([(column, 0), (column, rows)]) for column in range(1, columns)]
        axes.add_collection(LineCollection(lines, colors="#eeeeee", linewidths=0.5), autolim=False)
    return image


def label_tokens(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Tokens along both sides; of many, every second or third."""
    size = SMALL if max(len(queries), len(keys)) <= 40 else TINY
    label_places(axes, queries, keys, size)
    for axis, count in ((axes.xaxis, len(keys)), (axes.yaxis, len(queries))):
        each = step(count, LABELLED)
        for position, tick in enumerate(axis.get_ticklabels()):
            tick.set_visible(position % each == 0)
    axes.set_ylabel("query ↓ attends to key →", fontsize=SMALL, color=FAINT)


def number(axes: Axes, weights: Cells, hidden: Hidden | None) -> None:
    """The weights in their cells, where there are few enough."""
    if max(weights.shape) > NUMBERED:
        return
    for row, line in enumerate(weights.tolist()):
        for column, weight in enumerate(line):
            if hidden is None or not hidden[row, column]:
                told, colour = f"{weight:.2f}".removeprefix("0"), "white" if weight > 0.3 else "#333333"
                write(axes, column, row, told, fontsize=TINY, color=colour)


def legend_of_weights(
    figure: Figure, image: AxesImage, axes: Axes | list[Axes], name: str = "α", **position: Any
) -> None:
    """The scale, in weights."""
    bar = figure.colorbar(
        image, ax=axes, ticks=TICKS, **{"shrink": 0.8, "pad": 0.02, "aspect": 30, **position}
    )
    bar.ax.set_title(name, fontsize=SMALL, color=FAINT)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.set_yticklabels([f"{tick:g}" for tick in TICKS])


def mask_key(seen: Seen) -> list[Patch]:
    """What the hatches mean, of those that are there."""
    kinds = ((seen.later, LATER, "later: not seen yet"), (seen.outside, OUTSIDE, "padding, or too far"))
    return [
        Patch(facecolor="white", edgecolor="#b0b0b0", hatch=hatch, label=label, linewidth=0.5)
        for cells, hatch, label in kinds
        if cells is not None and bool(cells.any())
    ]


def _outline(cells: Hidden) -> Path:
    """Around all cells that are hidden, a cell being 1 wide and high."""
    paths = []
    for row, line in enumerate(cells.tolist()):
        changes = np.diff(np.array([False, *line, False]).astype(np.int8))
        starts, ends = (np.flatnonzero(changes == sign).tolist() for sign in (1, -1))
        for first, last in zip(starts, ends, strict=True):
            corners = [(first, row), (last, row), (last, row + 1), (first, row + 1)]
            paths.append(Path([*corners, corners[0]], closed=True))
    return Path.make_compound_path(*paths)

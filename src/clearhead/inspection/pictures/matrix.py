"""A matrix of weights or scores: what can be seen of it, what is hidden, and the scale."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from torch import Tensor

from clearhead.inspection.pictures.style import (
    FAINT,
    GRID,
    SIGNED,
    SMALL,
    TICKS,
    TINY,
    WEIGHT,
    label_places,
    signed_scale,
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


def draw_weights(axes: Axes, weights: Cells, seen: Seen, labels: bool = True) -> AxesImage:
    """Weights by their roots, masked cells hatched: what comes later apart from padding."""
    image = axes.imshow(
        weights.numpy(), cmap=WEIGHT, norm=weight_scale(), aspect="equal", interpolation="nearest"
    )
    _hatch(axes, seen.later, LATER)
    _hatch(axes, seen.outside, OUTSIDE)
    _frame(axes, weights.shape[0], weights.shape[1])
    if labels:
        label_tokens(axes, seen.queries, seen.keys)
        number(axes, weights, seen.hidden, dark=lambda value: value > 0.3)
    else:
        axes.set(xticks=[], yticks=[])
    return image


def draw_signed(axes: Axes, values: Cells, seen: Seen, labels: bool = True) -> AxesImage:
    """Values around zero; what is hidden is left white and hatched."""
    shown = values if seen.hidden is None else values.masked_fill(seen.hidden, 0.0)
    largest = float(shown.abs().max())
    image = axes.imshow(
        shown.numpy(), cmap=SIGNED, norm=signed_scale(largest), aspect="equal", interpolation="nearest"
    )
    _hatch(axes, seen.later, LATER)
    _hatch(axes, seen.outside, OUTSIDE)
    _frame(axes, *values.shape)
    if labels:
        label_tokens(axes, seen.queries, seen.keys)
        number(axes, shown, seen.hidden, dark=lambda value: abs(value) > 0.7 * largest, form="{:.1f}")
    return image


def label_tokens(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Tokens along both sides; of many, every second or third."""
    size = SMALL if max(len(queries), len(keys)) <= 40 else TINY
    label_places(axes, queries, keys, size)
    for axis, count in ((axes.xaxis, len(keys)), (axes.yaxis, len(queries))):
        each = step(count, LABELLED)
        for place, tick in enumerate(axis.get_ticklabels()):
            tick.set_visible(place % each == 0)
    axes.set_ylabel("query ↓ attends to key →", fontsize=SMALL, color=FAINT)


def number(
    axes: Axes, values: Cells, hidden: Hidden | None, dark: Callable[[float], bool], form: str = "{:.2f}"
) -> None:
    """The numbers in the cells, where there are few enough."""
    if max(values.shape) > NUMBERED:
        return
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            if hidden is None or not hidden[row, column]:
                told = form.format(value).removeprefix("0") if form == "{:.2f}" else form.format(value)
                write(axes, column, row, told, fontsize=TINY, color="white" if dark(value) else "#333333")


def legend_of_weights(
    figure: Figure, image: AxesImage, axes: Axes | list[Axes], name: str = "α", **place: Any
) -> None:
    """The scale, in weights."""
    bar = figure.colorbar(image, ax=axes, ticks=TICKS, **{"shrink": 0.8, "pad": 0.02, "aspect": 30, **place})
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


def _hatch(axes: Axes, cells: Hidden | None, hatch: str) -> None:
    if cells is None or not bool(cells.any()):
        return
    # One patch for all cells: thousands of them would make a vector file large.
    paths = []
    for row, line in enumerate(cells.tolist()):
        for first, last in _runs(line):
            corners = [(first - 0.5, row - 0.5), (last + 0.5, row - 0.5), (last + 0.5, row + 0.5)]
            paths.append(Path([*corners, (first - 0.5, row + 0.5), corners[0]], closed=True))
    whole = Path.make_compound_path(*paths)
    axes.add_patch(PathPatch(whole, facecolor="white", edgecolor="#c4c4c4", hatch=hatch, linewidth=0))


def _runs(line: list[bool]) -> list[tuple[int, int]]:
    """First and last of the hidden cells that lie side by side."""
    padded = np.diff(np.array([False, *line, False]).astype(np.int8))
    return list(
        zip(np.flatnonzero(padded == 1).tolist(), (np.flatnonzero(padded == -1) - 1).tolist(), strict=True)
    )


def _frame(axes: Axes, rows: int, columns: int) -> None:
    for side in axes.spines.values():
        side.set_color(GRID)
    if max(rows, columns) <= GRIDDED:
        across = [[(-0.5, row - 0.5), (columns - 0.5, row - 0.5)] for row in range(1, rows)]
        down = [[(column - 0.5, -0.5), (column - 0.5, rows - 0.5)] for column in range(1, columns)]
        axes.add_collection(LineCollection([*across, *down], colors="#eeeeee", linewidths=0.5), autolim=False)

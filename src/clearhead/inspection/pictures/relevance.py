"""How much each token supports the output, by several methods, and how far they can be trusted."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from clearhead.inspection.image import PatchImage
from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.overlay import draw_signed_map
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import (
    FAINT,
    GRID,
    HEADS,
    SIGNED,
    SMALL,
    TINY,
    shortened,
    signed_scale,
    write,
)
from clearhead.inspection.relevance import RANDOM, DeletionTest, Relevance, Values

COLUMNS, CELL_WIDTH, CELL_HEIGHT = 10, 0.72, 0.27
MAP_HEIGHT, CURVE_HEIGHT = 2.1, 1.9
STRONGEST = 5
LINES = {RANDOM: FAINT}


def relevance_view(context: PictureContext) -> Picture:
    """A cell for each token by each method, or a map over the image, and below them the deletion test."""
    found = context.summaries.relevance
    pieces = [token.piece for token in context.explanation.sides[found.side]]
    image = context.explanation.images.get(found.side)
    unit = "token" if image is None else "patch"
    rows = -(-len(pieces) // COLUMNS)
    heights = [*[rows * CELL_HEIGHT + 0.3] * len(found.values), CURVE_HEIGHT]
    if image is not None:
        heights = [MAP_HEIGHT, CURVE_HEIGHT]

    def draw(figure: Figure) -> None:
        if image is not None:
            parts: Any = figure.subfigures(2, 1, height_ratios=heights)
            _draw_maps(parts[0], found, image)
            below = parts[1].subplots()
        else:
            *panels, below = figure.subplots(len(heights), 1, height_ratios=heights)
            for panel, (method, values) in zip(panels, found.values.items(), strict=True):
                _draw_tokens(panel, method, values, pieces, rows)
        _draw_curves(below, found.deletion, found.label, "tokens" if image is None else "patches")

    test = found.deletion
    falls = ", ".join(f"{method} {test.comprehensiveness(method):.2f}" for method in test.without)
    caption = (
        f"{context.subject} how much each {unit} supports “{found.label}” (orange) or speaks against it "
        "(blue), each method relative to its largest value. Below: the probability as the most relevant "
        f"ones are removed first. It falls on average by: {falls}. A method by which it falls no faster "
        "than in a random order explains nothing."
    )
    alt = " ".join(_described(method, values, pieces) for method, values in found.values.items())
    size = (COLUMNS * CELL_WIDTH + 0.6, sum(heights) + 1.4)
    return make_picture(f"Relevance of each {unit} for “{found.label}”", draw, size, caption, alt)


def _draw_maps(figure: SubFigure, found: Relevance, image: PatchImage) -> None:
    """The image, and a map of each method over it."""
    panels = figure.subplots(1, len(found.values) + 1)
    panels[0].imshow(image.pixels.numpy(), interpolation="nearest")
    panels[0].set_title("the image", fontsize=SMALL, color=FAINT)
    for axes, (method, values) in zip(panels[1:], found.values.items(), strict=True):
        cells = image.on_grid(values)
        draw_signed_map(axes, image, cells)
        axes.set_title(f"{method}\n± {float(cells.abs().max()):.2g}", fontsize=SMALL, color=FAINT)
    for axes in panels:
        axes.set_axis_off()


def _draw_tokens(axes: Axes, method: str, values: Values, pieces: Sequence[str], rows: int) -> None:
    cells = torch.full((rows * COLUMNS,), float("nan"))
    cells[: len(values)] = values
    scale = signed_scale(float(values.abs().max()))
    axes.imshow(cells.unflatten(0, (rows, COLUMNS)).numpy(), cmap=SIGNED, norm=scale, aspect="auto")
    for position, piece in enumerate(pieces):
        row, column = divmod(position, COLUMNS)
        dark = abs(float(values[position])) > 0.75 * (scale.vmax or 1.0)
        style = {"color": "white"} if dark else {}
        write(axes, column, row, shortened(piece, 11), fontsize=TINY, **style)
    axes.set_title(method, fontsize=SMALL, color=FAINT, loc="left")
    axes.set_axis_off()


def _draw_curves(axes: Axes, test: DeletionTest, label: str, units: str) -> None:
    shares = [0.0, *test.shares]
    for number, method in enumerate(test.without):
        colour = LINES.get(method, HEADS[number])
        axes.plot(
            shares, test.curve(method), color=colour, marker="o", markersize=2.5, linewidth=1, label=method
        )
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"share of the {units} removed, the most relevant first", fontsize=SMALL)
    axes.set_ylabel(f"probability of {shortened(label)}", fontsize=SMALL)
    axes.tick_params(labelsize=TINY, length=2)
    axes.grid(color=GRID, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=TINY, frameon=False)


def _described(method: str, values: Values, pieces: Sequence[str]) -> str:
    """The most relevant tokens in words."""
    order = values.argsort(descending=True)[:STRONGEST].tolist()
    listed = ", ".join(f"{pieces[position]} ({values[position]:.2g})" for position in order)
    return f"Most relevant by {method}: {listed}."

"""The atlas: thumbnails of all heads of one attention in all layers, each with its role."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from clearhead.inspection.pictures.context import AttentionView, PictureContext, Subject
from clearhead.inspection.pictures.matrix import draw_cells, mask_legend, weight_legend
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, GRID, TINY, shortened, write
from clearhead.inspection.summaries import entropy

# Inches of a thumbnail, of the gap between two, and of the text above and below one.
SIDE, GAP, ABOVE, BELOW = 1.25, 0.14, 0.32, 0.2
MAX_WIDTH, MAX_HEIGHT = 24.0, 40.0
"""Inches of a whole atlas; with many heads, thumbnails shrink."""
MIN_LABELLED = 0.9
"""Smaller thumbnails have no roles written above them."""
MAX_ACROSS = 8
"""The most layers that run across; the page has the same rule."""
LETTER, LINE, MAX_LETTERS = 0.07, 0.11, 10
"""Inches of a letter and of a line of tokens, and the most letters of one."""
CELLS = 96
"""The most cells of a thumbnail per side; longer texts are pooled."""


def atlas_view(context: PictureContext) -> Picture:
    layers = range(len(context.summaries.paths(context.kind)))
    return atlas_picture(context.subject, [context.attention(layer) for layer in layers])


def atlas_picture(subject: Subject, layers: Sequence[AttentionView]) -> Picture:
    """Layers by heads of one attention, in the order of the explorer's page."""
    heads, (first, last) = layers[0].heads, (layers[0].name, layers[-1].name)
    grid = _Grid(layers)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        images = [_draw_layer(axes, layer, grid) for layer in layers]
        _label_tokens(axes, layers[0], grid)
        axes.set(xlim=(-grid.left, grid.width - grid.left), ylim=(grid.height, 0))
        axes.set_axis_off()
        weight_legend(figure, images[-1], axes, aspect=40)
        if legend := mask_legend(layers[0]):
            figure.legend(handles=legend, loc="outside upper right", fontsize=TINY, frameon=False)

    title = f"{_pattern(first)}: {len(layers)} layers × {heads} heads"
    queries, keys = grid.queries, grid.keys
    roles = "Above each head: its role by measurement; below: its mean entropy. " if grid.labelled else ""
    pooled = (
        f"Each cell is the maximum of several: {queries} × {keys} weights."
        if max(queries, keys) > CELLS
        else ""
    )
    across = "layers across, heads down" if grid.turned else "heads across, layers down"
    caption = (
        f"{subject} weights of {_pattern(first)}, {across}; query ↓ attends to key →; colour by √α, 0 to 1. "
        f"{roles}{pooled}"
    )
    counts = "; ".join(f"layer {layer.layer}: {layer.role_counts() or 'no roles'}" for layer in layers)
    alt = f"Thumbnails of {len(layers) * heads} heads, {first} to {last}. Roles by measurement: {counts}."
    return make_picture(title, draw, (grid.width + 0.9, grid.height + 0.9), caption.rstrip(), alt)


class _Grid:
    """Where the thumbnails are, in inches; the longer axis runs across if it fits, as on the page."""

    def __init__(self, layers: Sequence[AttentionView]):
        heads = layers[0].heads
        self.turned = heads < len(layers) <= MAX_ACROSS
        self.columns, self.rows = (len(layers), heads) if self.turned else (heads, len(layers))
        self.queries, self.keys = layers[0].weights.shape[1:]
        self.side = min(SIDE, MAX_WIDTH / self.columns - GAP, MAX_HEIGHT / self.rows - ABOVE - BELOW)
        self.tall = self.side * min(1.6, max(0.6, self.queries / self.keys))
        self.labelled = self.side >= MIN_LABELLED
        tokens = (layers[0].queries, layers[0].keys)
        letters = [_most_letters(one) if self.labelled else 0 for one in tokens]
        self.left, self.below = (0.3 + LETTER * one for one in letters)
        self.above = 0.2 if self.turned else 0.0
        self.width = self.left + self.columns * (self.side + GAP)
        self.height = self.above + self.rows * (self.tall + ABOVE + BELOW) + self.below - 0.3

    def corner(self, layer: int, head: int) -> tuple[float, float]:
        """The left and the top of a head's thumbnail."""
        column, row = (layer, head) if self.turned else (head, layer)
        return column * (self.side + GAP), self.above + row * (self.tall + ABOVE + BELOW) + ABOVE


def _draw_layer(axes: Axes, attention: AttentionView, grid: _Grid) -> AxesImage:
    small, bits = _pooled(attention), entropy(attention.weights).mean(-1).tolist()
    image, side, tall = None, grid.side, grid.tall
    for head in range(attention.heads):
        left, top = grid.corner(attention.layer, head)
        image = draw_cells(axes, small.weights[head], small, (left, top, side, tall))
        axes.add_patch(Rectangle((left, top), side, tall, fill=False, edgecolor=GRID, linewidth=0.8))
        middle = left + side / 2
        role = f"\n{attention.roles[head]}" if attention.roles and grid.labelled else ""
        write(axes, middle, top - 0.03, f"head {head}{role}", fontsize=TINY, va="bottom")
        if grid.labelled:
            style = {"fontsize": TINY, "va": "top", "color": FAINT}
            write(axes, middle, top + tall + 0.03, f"{bits[head]:.1f} bits", **style)
    left, top = grid.corner(attention.layer, 0)
    if grid.turned:
        write(axes, left + side / 2, top - ABOVE - 0.02, f"layer {attention.layer}", va="bottom")
    else:
        write(axes, 0.14 - grid.left, top + tall / 2, f"layer {attention.layer}", rotation=90)
    assert image is not None
    return image


def _label_tokens(axes: Axes, attention: AttentionView, grid: _Grid) -> None:
    """Queries beside the first column, keys below the last row; of many, only every second or third."""
    if not grid.labelled:
        return
    down, across = grid.tall / grid.queries, grid.side / grid.keys
    every_query, every_key = (max(1, math.ceil(LINE / step)) for step in (down, across))
    tops = [ABOVE + grid.above + row * (grid.tall + ABOVE + BELOW) for row in range(grid.rows)]
    lefts = [column * (grid.side + GAP) for column in range(grid.columns)]
    for top in tops:
        for number in range(0, grid.queries, every_query):
            token = shortened(attention.queries[number], MAX_LETTERS)
            write(axes, -0.04, top + (number + 0.5) * down, token, ha="right", fontsize=TINY)
    for left in lefts:
        for number in range(0, grid.keys, every_key):
            token = shortened(attention.keys[number], MAX_LETTERS)
            style = {"rotation": 90, "va": "top", "fontsize": TINY}
            write(axes, left + (number + 0.5) * across, tops[-1] + grid.tall + BELOW, token, **style)


def _most_letters(tokens: Sequence[str]) -> int:
    return max(len(shortened(token, MAX_LETTERS)) for token in tokens)


def _pooled(attention: AttentionView) -> AttentionView:
    """The same attention in at most CELLS cells per side, each the maximum of those it covers."""
    rows, columns = attention.weights.shape[1:]
    if max(rows, columns) <= CELLS:
        return attention
    size = min(rows, CELLS), min(columns, CELLS)
    masked = None
    if attention.masked is not None:
        # A cell is masked only where all weights that it covers are.
        masked = F.adaptive_max_pool2d((~attention.masked).float()[None], size)[0] == 0
    return replace(attention, weights=F.adaptive_max_pool2d(attention.weights, size), masked=masked)


def _pattern(path: str) -> str:
    """A path with * in place of the layer's number."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", path, count=1)

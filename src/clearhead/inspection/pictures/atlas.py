"""The atlas: thumbnails of all heads of one attention in all layers, each with its role."""

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
from clearhead.inspection.pictures.style import FAINT, GRID, SMALL, TINY, write
from clearhead.inspection.summaries import entropy

# Inches of a thumbnail, of the gap between two, and of the text above and below one.
SIDE, GAP, ABOVE, BELOW = 1.25, 0.14, 0.32, 0.2
MAX_WIDTH, MAX_HEIGHT = 24.0, 40.0
"""Inches of a whole atlas; with many heads, thumbnails shrink."""
MIN_LABELLED = 0.9
"""Smaller thumbnails have no roles written above them."""
CELLS = 96
"""The most cells of a thumbnail per side; longer texts are pooled."""


def atlas_view(context: PictureContext) -> Picture:
    layers = range(len(context.summaries.paths(context.kind)))
    return atlas_picture(context.subject, [context.attention(layer) for layer in layers])


def atlas_picture(subject: Subject, layers: Sequence[AttentionView]) -> Picture:
    """Layers by heads of one attention, the first layer on top."""
    heads, (first, last) = layers[0].heads, (layers[0].name, layers[-1].name)
    side = min(SIDE, MAX_WIDTH / heads - GAP, MAX_HEIGHT / len(layers) - ABOVE - BELOW)
    queries, keys = layers[0].weights.shape[1:]
    tall = side * min(1.6, max(0.6, queries / keys))
    size = heads * (side + GAP) + 0.3, len(layers) * (tall + ABOVE + BELOW)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        images = [
            _draw_layer(axes, layer, number * (tall + ABOVE + BELOW) + ABOVE, side, tall)
            for number, layer in enumerate(layers)
        ]
        axes.set(xlim=(-0.3, size[0] - 0.3), ylim=(size[1], 0))
        axes.set_axis_off()
        weight_legend(figure, images[-1], axes, aspect=40)
        if legend := mask_legend(layers[0]):
            figure.legend(handles=legend, loc="outside upper right", fontsize=TINY, frameon=False)

    title = f"{_pattern(first)}: {len(layers)} layers × {heads} heads"
    roles = "Above each head: its role by measurement; below: its mean entropy."
    pooled = (
        f" Each cell is the maximum of several: {queries} × {keys} weights."
        if max(queries, keys) > CELLS
        else ""
    )
    caption = (
        f"{subject} weights of {_pattern(first)}, query ↓ attends to key →; colour by √α, 0 to 1. "
        f"{roles if side >= MIN_LABELLED else ''}{pooled}"
    )
    counts = "; ".join(f"layer {layer.layer}: {layer.role_counts() or 'no roles'}" for layer in layers)
    alt = f"Thumbnails of {len(layers) * heads} heads, {first} to {last}. Roles by measurement: {counts}."
    return make_picture(title, draw, (size[0] + 0.9, size[1] + 0.9), caption, alt)


def _draw_layer(axes: Axes, attention: AttentionView, top: float, side: float, tall: float) -> AxesImage:
    small, bits = _pooled(attention), entropy(attention.weights).mean(-1).tolist()
    labelled, image = side >= MIN_LABELLED, None
    for head in range(attention.heads):
        left = head * (side + GAP)
        image = draw_cells(axes, small.weights[head], small, (left, top, side, tall))
        axes.add_patch(Rectangle((left, top), side, tall, fill=False, edgecolor=GRID, linewidth=0.8))
        middle = left + side / 2
        role = f"\n{attention.roles[head]}" if attention.roles and labelled else ""
        write(axes, middle, top - 0.03, f"head {head}{role}", fontsize=TINY, va="bottom")
        if labelled:
            style = {"fontsize": TINY, "va": "top", "color": FAINT}
            write(axes, middle, top + tall + 0.03, f"{bits[head]:.1f} bits", **style)
    write(axes, -0.16, top + tall / 2, f"layer {attention.layer}", fontsize=SMALL, rotation=90)
    assert image is not None
    return image


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

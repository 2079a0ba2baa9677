"""All heads of one attention in all layers, small, each with its role."""

from collections.abc import Sequence
from dataclasses import replace

import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from clearhead.inspection.pictures.matrix import draw_cells, legend_of_weights, mask_key
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import FAINT, GRID, SMALL, TINY, bare, write
from clearhead.inspection.pictures.subject import Seen, Subject
from clearhead.inspection.summaries import entropy

# Inches of a thumbnail, of the room between two, and of the text above and below one.
SIDE, GAP, ABOVE, BELOW = 1.25, 0.14, 0.32, 0.2
WIDEST, TALLEST = 24.0, 40.0
"""Inches of a whole atlas; thumbnails of many heads become smaller."""
# In smaller ones there is no room for roles.
ROOMY = 0.9
# Cells of a thumbnail; of longer texts, each stands for several.
CELLS = 96


def atlas_picture(subject: Subject, layers: Sequence[Seen]) -> Picture:
    """Layers by heads of one kind of attention, the first layer on top."""
    heads, (first, last) = layers[0].heads, (layers[0].name, layers[-1].name)
    side = min(SIDE, WIDEST / heads - GAP, TALLEST / len(layers) - ABOVE - BELOW)
    queries, keys = layers[0].weights.shape[1:]
    tall = side * min(1.6, max(0.6, queries / keys))
    size = heads * (side + GAP) + 0.3, len(layers) * (tall + ABOVE + BELOW)

    def draw(figure: Figure) -> None:
        title = f"{_pattern(first)}: {len(layers)} layers × {heads} heads"
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        axes = figure.subplots()
        images = [
            _draw_layer(axes, seen, number * (tall + ABOVE + BELOW) + ABOVE, side, tall)
            for number, seen in enumerate(layers)
        ]
        axes.set(xlim=(-0.3, size[0] - 0.3), ylim=(size[1], 0))
        bare(axes)
        legend_of_weights(figure, images[-1], axes, aspect=40)
        if key := mask_key(layers[0]):
            figure.legend(handles=key, loc="outside upper right", fontsize=TINY, frameon=False)

    roles = "Above each head what it mostly looks at, by measurement; below its mean entropy."
    pooled = (
        f" Each cell is the largest of several: {queries} × {keys} weights."
        if max(queries, keys) > CELLS
        else ""
    )
    caption = (
        f"{subject} weights of {_pattern(first)}, query ↓ attends to key →; colour by √α, 0 to 1. "
        f"{roles if side >= ROOMY else ''}{pooled}"
    )
    told = "; ".join(f"layer {seen.layer}: {seen.told_roles() or 'no roles'}" for seen in layers)
    alt = f"Thumbnails of {len(layers) * heads} heads, {first} to {last}. Roles by measurement: {told}."
    return drawn(draw, (size[0] + 0.9, size[1] + 0.9), caption, alt)


def _draw_layer(axes: Axes, seen: Seen, top: float, side: float, tall: float) -> AxesImage:
    small, bits = _pooled(seen), entropy(seen.weights).mean(-1).tolist()
    image = None
    for head in range(seen.heads):
        left = head * (side + GAP)
        image = draw_cells(axes, small.weights[head], small, (left, top, side, tall))
        axes.add_patch(Rectangle((left, top), side, tall, fill=False, edgecolor=GRID, linewidth=0.8))
        middle = left + side / 2
        role = f"\n{seen.roles[head]}" if seen.roles and side >= ROOMY else ""
        write(axes, middle, top - 0.03, f"head {head}{role}", fontsize=TINY, va="bottom")
        if side >= ROOMY:
            write(
                axes,
                middle,
                top + tall + 0.03,
                f"{bits[head]:.1f} bits",
                fontsize=TINY,
                va="top",
                color=FAINT,
            )
    write(axes, -0.16, top + tall / 2, f"layer {seen.layer}", fontsize=SMALL, rotation=90)
    assert image is not None
    return image


def _pooled(seen: Seen) -> Seen:
    """The same in at most so many cells, each the largest of those it covers; hidden where all are."""
    rows, columns = seen.weights.shape[1:]
    if max(rows, columns) <= CELLS:
        return seen
    size = min(rows, CELLS), min(columns, CELLS)
    hidden = None
    if seen.hidden is not None:
        hidden = F.adaptive_max_pool2d((~seen.hidden).float()[None], size)[0] == 0
    return replace(seen, weights=F.adaptive_max_pool2d(seen.weights, size), hidden=hidden)


def _pattern(name: str) -> str:
    """The name that stands for all layers."""
    parts = name.split(".")
    return ".".join([*parts[:2], "*", *parts[3:]])

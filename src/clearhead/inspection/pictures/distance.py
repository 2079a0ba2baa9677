"""Attention distance: how far, in pixels, each head looks (Dosovitskiy et al. 2021, figure 11)."""

import torch
from matplotlib.figure import Figure

from clearhead.inspection.image import attention_distance
from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.patches import image_attention
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import HEADS, SMALL, TINY


def distance_view(context: PictureContext) -> Picture:
    """One dot for each head, by layer."""
    part, image = image_attention(context)
    layers = [attention_distance(one, image).tolist() for one in context.summaries.weights(part.name)]
    even = torch.ones(1, len(image.names), len(image.names))
    uniform = float(attention_distance(even, image))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for layer, heads in enumerate(layers):
            axes.scatter([layer] * len(heads), heads, s=22, color=HEADS[0], alpha=0.75, linewidths=0)
        axes.axhline(uniform, color=HEADS[7], lw=0.8, ls="--", label="a head that attends evenly")
        axes.set_xticks(range(len(layers)))
        axes.set_xlabel("layer", fontsize=SMALL)
        axes.set_ylabel("mean attention distance, pixels", fontsize=SMALL)
        axes.set(xlim=(-0.5, len(layers) - 0.5), ylim=(0, 1.1 * max(uniform, *map(max, layers))))
        axes.tick_params(labelsize=TINY)
        axes.legend(fontsize=TINY, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)

    height, width, _ = image.pixels.shape
    caption = (
        f"{context.subject} mean distance between a patch and the patches it attends to, weighted by "
        f"attention, of each head of {part.path('*')}; one image of {width} × {height} pixels. Weights on a "
        "class token are left out."
    )
    listed = "; ".join(f"layer {layer}: {min(one):.1f} to {max(one):.1f}" for layer, one in enumerate(layers))
    alt = f"Attention distance in pixels of the heads by layer. {listed}. An even head: {uniform:.1f}."
    return make_picture("Attention distance by layer", draw, (5.6, 3.9), caption, alt)

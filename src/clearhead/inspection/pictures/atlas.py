"""All heads of one attention in all layers, small, each with its role."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from clearhead.inspection.pictures.matrix import draw_weights, legend_of_weights, mask_key
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import FAINT, SMALL, TINY
from clearhead.inspection.pictures.subject import Seen, Subject
from clearhead.inspection.summaries import entropy

# Inches of a thumbnail.
SIDE = 1.25


def atlas_picture(subject: Subject, layers: Sequence[Seen]) -> Picture:
    """Layers by heads of one kind of attention, the first layer on top."""
    heads, (first, last) = layers[0].heads, (layers[0].name, layers[-1].name)
    queries, keys = layers[0].weights.shape[1:]
    tall = SIDE * min(1.6, max(0.6, queries / keys))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(layers), heads, squeeze=False)
        image = None
        for row, seen in zip(grid, layers, strict=True):
            sharpness = entropy(seen.weights).mean(-1).tolist()
            for head, axes in enumerate(row):
                image = draw_weights(axes, seen.weights[head], seen, labels=False)
                axes.set_title(_title(seen, head), fontsize=TINY, pad=2, parse_math=False)
                axes.set_xlabel(f"{sharpness[head]:.1f} bits", fontsize=TINY, color=FAINT, labelpad=1)
            row[0].set_ylabel(f"layer {seen.name.split('.')[2]}", fontsize=SMALL)
        assert image is not None
        figure.suptitle(
            f"{_pattern(first)}: {len(layers)} layers × {heads} heads", fontsize=10, x=0.01, ha="left"
        )
        legend_of_weights(figure, image, list(grid.flat), aspect=40)
        if key := mask_key(layers[0]):
            figure.legend(handles=key, loc="outside upper right", fontsize=TINY, frameon=False)

    caption = (
        f"{subject} weights of {_pattern(first)}, query ↓ attends to key →; colour by √α, 0 to 1. Above each "
        "head what it mostly looks at, by measurement; below its mean entropy."
    )
    told = "; ".join(f"layer {seen.name.split('.')[2]}: {seen.told_roles() or 'no roles'}" for seen in layers)
    alt = f"Thumbnails of {len(layers) * heads} heads, {first} to {last}. Roles by measurement: {told}."
    return drawn(draw, (heads * SIDE + 1.2, len(layers) * (tall + 0.45) + 0.9), caption, alt)


def _title(seen: Seen, head: int) -> str:
    role = f"\n{seen.roles[head]}" if seen.roles else ""
    return f"head {head}{role}"


def _pattern(name: str) -> str:
    """The name that stands for all layers."""
    parts = name.split(".")
    return ".".join([*parts[:2], "*", *parts[3:]])

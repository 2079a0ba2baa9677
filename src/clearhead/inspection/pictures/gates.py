"""The gates of recurrent layers over time, and the hidden state below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import (
    HEADS,
    SIGNED,
    SMALL,
    TINY,
    colour_bar,
    shortened,
    signed_scale,
)
from clearhead.layers.recurrent import CELLS

GATES = ("input_gate", "forget_gate", "output_gate", "reset_gate", "update_gate")
CELL = 0.34
"""Inches of a token."""
Units = Float[Tensor, "positions width"]


@dataclass(frozen=True)
class Recurrence:
    """One direction of a recurrent layer on one side of the input."""

    name: str
    tokens: Sequence[str]
    gates: Mapping[str, Units]
    hidden: Units


def gates_view(context: PictureContext) -> Picture:
    parts, chosen = context.anatomy.recurrences, context.selection.layer
    layers = min(part.layers for part in parts)
    layer = layers - 1 if chosen is None else chosen
    if not 0 <= layer < layers:
        raise SettingsError(f"layer: {layer} is out of range; there are layers 0 to {layers - 1}")
    found = []
    for part in parts:
        path = f"{part.path}.layers.{layer}"
        tokens = [token.piece for token in context.explanation.sides[part.side]]
        tensors = {name: context.summaries.tensor(f"{path}.{name}") for name in CELLS[part.cell].tensors}
        for direction in range(part.directions):
            reads = (" forward", " backward")[direction] if part.directions > 1 else ""
            gates = {name: tensors[name][direction] for name in GATES if name in tensors}
            found.append(Recurrence(f"{path}{reads}", tokens, gates, tensors["hidden"][direction]))
    return gates_picture(context.subject, found)


def gates_picture(subject: Subject, recurrences: Sequence[Recurrence]) -> Picture:
    """For each recurrence the mean of each gate at each token, and all units of the hidden state."""
    max_tokens = max(len(one.tokens) for one in recurrences)
    largest = max(float(one.hidden.abs().max()) for one in recurrences)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(2, len(recurrences), sharex="col", squeeze=False)
        images = []
        for (above, below), one in zip(grid.T, recurrences, strict=True):
            draw_gates(above, one)
            images.append(draw_hidden(below, one, largest))
        grid[1, 0].set_ylabel("unit of the hidden state", fontsize=SMALL)
        colour_bar(figure, images[-1], grid[1, -1], "h")

    caption = (
        f"{subject} the gates of recurrent layers at each token: lines are means over all units, bands hold "
        "the middle half of them; 1 is open. Below: every unit of the hidden state, blue below zero and "
        "orange above."
    )
    means = [
        f"{name.replace('_', ' ')} {float(gate.mean()):.2f}"
        for one in recurrences
        for name, gate in one.gates.items()
    ]
    names = ", ".join(one.name for one in recurrences)
    alt = f"Gates and hidden states of {names}. Mean gates, in order: {', '.join(means) or 'none'}."
    size = (len(recurrences) * max(2.4, CELL * max_tokens + 0.8), 4.8)
    return make_picture("Gates and hidden states over time", draw, size, caption, alt)


def draw_gates(axes: Axes, recurrence: Recurrence) -> None:
    """The mean of each gate over its units, and the middle half of them."""
    for (name, gate), colour in zip(recurrence.gates.items(), HEADS, strict=False):
        positions = range(len(gate))
        low, high = gate.quantile(0.25, dim=-1), gate.quantile(0.75, dim=-1)
        axes.fill_between(positions, low.numpy(), high.numpy(), color=colour, alpha=0.15, linewidth=0)
        mean = gate.mean(-1).numpy()
        axes.plot(positions, mean, ".-", color=colour, lw=1.2, ms=3, label=name.replace("_", " "))
    axes.set_title(recurrence.name, fontsize=SMALL, parse_math=False)
    axes.set_ylim(0, 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TINY, length=2)
    if recurrence.gates:
        axes.legend(fontsize=TINY, frameon=False)


def draw_hidden(axes: Axes, recurrence: Recurrence, largest: float) -> AxesImage:
    """Every unit of the hidden state at every token."""
    shades = {"cmap": SIGNED, "norm": signed_scale(largest), "aspect": "auto"}
    image = axes.imshow(recurrence.hidden.T.numpy(), interpolation="nearest", **shades)
    slanted = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
    labels = [shortened(token, 10) for token in recurrence.tokens]
    axes.set_xticks(range(len(labels)), labels, fontsize=TINY, **slanted)
    axes.tick_params(length=0, labelsize=TINY)
    return image

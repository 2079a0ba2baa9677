"""One head: curves between two columns of tokens, and the matrix of its weights."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.inspection.pictures.context import AttentionView, PictureContext, Subject
from clearhead.inspection.pictures.matrix import Cells, draw_weights, mask_legend, weight_legend
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, HEADS, TINY, curve, shortened, write

MAX_CURVED = 64
"""With more tokens, curves are unreadable and only the matrix is drawn."""
MIN_DRAWN = 0.03
"""Curves of smaller weights would be invisible."""
CELL = 0.28
"""Inches of a cell."""


def head_view(context: PictureContext) -> Picture:
    layer, head = context.layer_and_head()
    return head_picture(context.subject, context.attention(layer), head)


def head_picture(subject: Subject, attention: AttentionView, head: int) -> Picture:
    """One head of an attention."""
    weights = attention.weights[head]
    curved = max(weights.shape) <= MAX_CURVED
    tall = max(2.8, CELL * max(weights.shape[0], 0.7 * weights.shape[1]) + 1.5) if curved else 8.0
    wide = max(2.6, CELL * weights.shape[1] + 1.7) if curved else 8.0
    title = f"{attention.name}, {attention.label(head)}"

    def draw(figure: Figure) -> None:
        draw_head(figure, weights, attention, HEADS[head % len(HEADS)], curved)
        if legend := mask_legend(attention):
            figure.legend(handles=legend, loc="outside upper right", fontsize=TINY, frameon=False)

    caption = f"{subject} weights of {attention.name}, head {head}: each row sums to 1; colour by √α, 0 to 1."
    alt = f"{title}. Each token attends most to: {attention.strongest(head)}."
    return make_picture(title, draw, (wide + (2.8 if curved else 0.8), tall), caption, alt)


def draw_head(figure: Figure, weights: Cells, attention: AttentionView, colour: str, curved: bool) -> Axes:
    """Draws the weights of a head, beside their curves unless there are too many; returns the matrix."""
    if curved:
        ratios = (2.4, max(2.6, CELL * weights.shape[1] + 1.7))
        left, right = figure.subplots(1, 2, width_ratios=ratios)
        draw_curves(left, weights, attention.queries, attention.keys, colour)
    else:
        right = figure.subplots()
    weight_legend(figure, draw_weights(right, weights, attention), right)
    return right


def draw_curves(axes: Axes, weights: Cells, queries: Sequence[str], keys: Sequence[str], colour: str) -> None:
    """Queries on the left, keys on the right, and a curve for each weight, whose width grows with it."""
    rows, columns = weights.shape
    tall = max(rows, columns)
    left, right = _centred(rows, tall), _centred(columns, tall)
    for query, row in enumerate(weights.tolist()):
        for key, weight in enumerate(row):
            if weight >= MIN_DRAWN:
                points = [(0.0, left[query]), (0.45, left[query]), (0.55, right[key]), (1.0, right[key])]
                style = {"lw": 0.3 + 3.2 * weight, "alpha": 0.15 + 0.75 * weight**0.5}
                axes.add_patch(curve(points, edgecolor=colour, **style))
    for position, token in enumerate(queries):
        write(axes, -0.04, left[position], shortened(token), ha="right")
    for position, token in enumerate(keys):
        write(axes, 1.04, right[position], shortened(token), ha="left")
    write(axes, -0.04, -1.0, "query", ha="right", color=FAINT, fontsize=TINY)
    write(axes, 1.04, -1.0, "key", ha="left", color=FAINT, fontsize=TINY)
    axes.set(xlim=(-0.9, 1.9), ylim=(tall - 0.3, -1.5))
    axes.set_axis_off()


def _centred(count: int, tall: int) -> list[float]:
    """The heights of tokens that are centred in a column."""
    return [position + (tall - count) / 2 for position in range(count)]

"""Cross-attention: the source words that each word of the target attends to, by one head."""

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from clearhead.inspection.alignment import WordAlignment
from clearhead.inspection.pictures.context import AttentionView, PictureContext, Subject
from clearhead.inspection.pictures.head import CELL, draw_head
from clearhead.inspection.pictures.matrix import MAX_NUMBERED
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, HEADS, SMALL, TINY

MARK = "#d55e00"
MIN_WIDTH = 6.6
"""Inches that hold the title beside the legend."""
MAX_CURVED = 40
"""Longer texts are drawn as a matrix only."""


def cross_view(context: PictureContext) -> Picture:
    cross = context.summaries.cross
    assert cross is not None
    at = context.layer_and_head(cross.name)
    aligner = next(one for one in context.summaries.aligners if (one.layer, one.head) == at)
    return cross_picture(context.subject, context.summaries.alignment(aligner))


def cross_picture(subject: Subject, words: WordAlignment) -> Picture:
    """Curves from each target word to the source words it attends to, and the same as a matrix."""
    rows, columns = words.weights.shape
    aligner, curved = words.aligner, max(rows, columns) <= MAX_CURVED
    when = "is the decoder's input" if aligner.reads else "is predicted"

    def draw(figure: Figure) -> None:
        attention = AttentionView(words.name, words.weights[None], words.target, words.source)
        axes = draw_head(figure, words.weights, attention, HEADS[aligner.head % len(HEADS)], curved)
        axes.set_xlabel("target word ↓ attends to source word →", fontsize=SMALL, color=FAINT)
        _mark(axes, words)
        figure.legend(handles=_legend(), loc="outside upper right", fontsize=TINY, frameon=False)

    caption = (
        f"{subject} cross-attention of {words.name}, taken where the word {when}. Subwords are merged: "
        f"weights are summed over a word's keys and averaged over its queries, without special tokens; "
        f"colour by √α, 0 to 1. Agreement {aligner.agreement:.2f}: how far the words of both texts choose "
        "each other; 1 is a perfect pairing."
    )
    alt = f"Word alignment by {words.name}, agreement {aligner.agreement:.2f}: {str(words) or 'no links'}."
    size = (
        max(CELL * columns + 1.7 + (2.8 if curved else 0.8), MIN_WIDTH),
        max(3.0, CELL * max(rows, 0.7 * columns) + 1.8),
    )
    return make_picture(f"{words.name}: words aligned", draw, size, caption, alt)


def _mark(axes: Axes, words: WordAlignment) -> None:
    """A dot on each row's largest weight, a frame around each link."""
    shift = 0.0 if max(words.weights.shape) > MAX_NUMBERED else 0.34
    largest = words.weights.argmax(-1).tolist()
    across = [position + shift for position in largest]
    down = [position - shift for position in range(len(largest))]
    axes.scatter(across, down, s=9, color=MARK, zorder=3)
    for source, target in words.links:
        corner = (source - 0.45, target - 0.45)
        axes.add_patch(Rectangle(corner, 0.9, 0.9, fill=False, edgecolor=MARK, lw=1.2))


def _legend() -> list[Artist]:
    dot = Line2D([], [], color=MARK, marker="o", markersize=3, linestyle="none", label="largest of the row")
    return [dot, Patch(facecolor="none", edgecolor=MARK, label="linked: both choose each other")]

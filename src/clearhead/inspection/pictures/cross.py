"""Cross-attention: which words of the source a translation comes from, in the eyes of one head."""

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from clearhead.inspection.alignment import WordAlignment
from clearhead.inspection.pictures.head import CELL, draw_lines
from clearhead.inspection.pictures.matrix import NUMBERED, draw_weights, legend_of_weights
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import HEADS, SMALL, TINY
from clearhead.inspection.pictures.subject import Seen, Subject

DOT = "#d55e00"
# Longer texts are shown as the matrix alone.
CURVED = 40


def cross_picture(subject: Subject, words: WordAlignment) -> Picture:
    """Curves from each word of the translation to the words it comes from, and the same as a matrix."""
    rows, columns = words.weights.shape
    aligner, curved = words.aligner, max(rows, columns) <= CURVED
    when = (
        "at the position where the word is read"
        if aligner.reads
        else "at the position where the word is written"
    )

    def draw(figure: Figure) -> None:
        figure.suptitle(f"{aligner.name}: words aligned", fontsize=10, x=0.01, ha="left", parse_math=False)
        wide = CELL * columns + 1.7
        axes = figure.subplots(1, 2, width_ratios=(2.4, max(wide, 2.6))) if curved else [figure.subplots()]
        if curved:
            draw_lines(axes[0], words.weights, words.target, words.source, HEADS[aligner.head % len(HEADS)])
        seen = Seen(aligner.name, words.weights[None], words.target, words.source)
        image = draw_weights(axes[-1], words.weights, seen)
        axes[-1].set_ylabel("target word ↓ attends to source word →", fontsize=SMALL)
        _mark(axes[-1], words)
        legend_of_weights(figure, image, axes[-1])
        figure.legend(handles=_key(), loc="outside upper right", fontsize=TINY, frameon=False)

    caption = (
        f"{subject} cross-attention of {aligner.name}, taken {when}. Subwords are merged: weights of a "
        f"word's keys added, of its queries averaged; signs left out; colour by √α, 0 to 1. Agreement "
        f"{aligner.agreement:.2f}: how far words of both texts choose each other; 1 is a perfect pairing."
    )
    alt = f"Word alignment by {aligner.name}, agreement {aligner.agreement:.2f}: {str(words) or 'no links'}."
    size = (
        max(CELL * columns + 1.7, 2.6) + (2.8 if curved else 0.8),
        max(3.0, CELL * max(rows, 0.7 * columns) + 1.8),
    )
    return drawn(draw, size, caption, alt)


def _mark(axes: Axes, words: WordAlignment) -> None:
    """A dot at each word's largest weight, a frame around each link."""
    corner = 0.0 if max(words.weights.shape) > NUMBERED else 0.34
    largest = words.weights.argmax(-1).tolist()
    across, down = (
        [position + corner for position in largest],
        [position - corner for position in range(len(largest))],
    )
    axes.scatter(across, down, s=9, color=DOT, zorder=3)
    for source, target in words.links:
        axes.add_patch(Rectangle((source - 0.45, target - 0.45), 0.9, 0.9, fill=False, edgecolor=DOT, lw=1.2))


def _key() -> list[Artist]:
    """What dots and frames mean."""
    dot = Line2D([], [], color=DOT, marker="o", markersize=3, linestyle="none", label="largest of the row")
    return [dot, Patch(facecolor="none", edgecolor=DOT, label="linked: both choose each other")]

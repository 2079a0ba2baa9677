"""One head: who looks at whom, as lines between two columns of tokens and as a matrix."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from torch import Tensor

from clearhead.inspection.pictures.matrix import draw_weights, legend_of_weights, mask_key
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import HEADS, TINY, bare, shortened, write
from clearhead.inspection.pictures.subject import Seen, Subject

# With more tokens, lines say nothing any more.
LINED = 64
# Thinner lines could not be seen.
FAINTEST = 0.03
# Inches of a cell.
CELL = 0.28
ROOT = "colour by √α, 0 to 1"


def head_picture(subject: Subject, seen: Seen, head: int) -> Picture:
    """One head of an attention."""
    weights = seen.weights[head]
    lined = max(weights.shape) <= LINED
    tall = max(2.8, CELL * max(weights.shape[0], 0.7 * weights.shape[1]) + 1.5) if lined else 8.0
    wide = max(2.6, CELL * weights.shape[1] + 1.7) if lined else 8.0

    def draw(figure) -> None:
        figure.suptitle(f"{seen.name}, {seen.label(head)}", fontsize=10, x=0.01, ha="left", parse_math=False)
        if lined:
            left, right = figure.subplots(1, 2, width_ratios=(2.4, wide))
            draw_lines(left, weights, seen.queries, seen.keys, HEADS[head % len(HEADS)])
        else:
            right = figure.subplots()
        image = draw_weights(right, weights, seen)
        legend_of_weights(figure, image, right)
        if key := mask_key(seen):
            figure.legend(handles=key, loc="outside upper right", fontsize=TINY, frameon=False)

    caption = f"{subject} weights of {seen.name}, head {head}: each row sums to 1; {ROOT}."
    alt = f"{seen.name}, {seen.label(head)}. Each token looks most at: {seen.strongest(head)}."
    return drawn(draw, (wide + (2.8 if lined else 0.8), tall), caption, alt)


def draw_lines(
    axes: Axes,
    weights: Float[Tensor, "queries keys"],
    queries: Sequence[str],
    keys: Sequence[str],
    colour: str,
    chosen: Sequence[int] | None = None,
) -> None:
    """Queries on the left, keys on the right, a curve for each weight, as thick as it is large."""
    rows, columns = weights.shape
    tall = max(rows, columns)
    left, right = _spread(rows, tall), _spread(columns, tall)
    for query, line in enumerate(weights.tolist()):
        if chosen is not None and query not in chosen:
            continue
        for key, weight in enumerate(line):
            if weight >= FAINTEST:
                points = [(0.0, left[query]), (0.45, left[query]), (0.55, right[key]), (1.0, right[key])]
                path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
                line_style = {"lw": 0.3 + 3.2 * weight, "alpha": 0.15 + 0.75 * weight**0.5}
                axes.add_patch(PathPatch(path, facecolor="none", edgecolor=colour, **line_style))
    for position, token in enumerate(queries):
        bold = chosen is not None and position in chosen
        write(axes, -0.04, left[position], shortened(token), ha="right", weight="bold" if bold else "normal")
    for position, token in enumerate(keys):
        write(axes, 1.04, right[position], shortened(token), ha="left")
    write(axes, -0.04, -1.0, "query", ha="right", color="#6b6b6b", fontsize=TINY)
    write(axes, 1.04, -1.0, "key", ha="left", color="#6b6b6b", fontsize=TINY)
    axes.set(xlim=(-0.9, 1.9), ylim=(tall - 0.3, -1.5))
    bare(axes)


def _spread(count: int, tall: int) -> list[float]:
    """Where so many tokens stand in a column of that height."""
    return [position + (tall - count) / 2 for position in range(count)]

"""A beam search as a tree: hypotheses kept and dropped at each step, and the best path."""

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clearhead.inspection.explanation import SearchNode
from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, INK, TINY, curve, shortened, write

COLOURS = {"best": "#d55e00", "kept": "#145a9e", "finished": "#009e73", "dropped": "#a8a8a8"}
LABELS = {
    "best": "path of the output",
    "kept": "kept at its step",
    "finished": "finished sentence",
    "dropped": "dropped",
}
# Inches between steps and between rows.
ACROSS, DOWN = 1.25, 0.34


def beam_view(context: PictureContext) -> Picture:
    tree = context.explanation.tree
    assert tree is not None
    pieces = [context.explanation.piece(node.token) for node in tree.nodes]
    return beam_picture(context.subject, tree.nodes, pieces)


def beam_picture(
    subject: Subject, nodes: Sequence[SearchNode], pieces: Sequence[str], dropped: int = 2
) -> Picture:
    """The tree from left to right, better scores above, with at most `dropped` dropped nodes per step."""
    visible = _visible(nodes, dropped)
    rows = _rows(nodes, visible)
    steps = max((nodes[one].step for one in visible), default=0) + 1
    tall = max(rows.values(), default=0) + 1

    def draw(figure: Figure) -> None:
        _tree(figure.subplots(), nodes, pieces, rows, steps, tall)
        key = [Line2D([], [], color=colour, lw=2, label=LABELS[name]) for name, colour in COLOURS.items()]
        figure.legend(handles=key, loc="outside upper right", ncols=4, fontsize=TINY, frameon=False)

    left_out = len(nodes) - len(visible)
    rest = f" {left_out} dropped hypotheses with lower scores are not drawn." if left_out else ""
    caption = (
        f"{subject} every step of the beam search from left to right, better scores above. Under each token: "
        f"its log-probability, and the score of the path with the length penalty.{rest}"
    )
    reasons = Counter(one.reason for one in nodes if one.state == "dropped" and one.reason)
    if reasons:
        counted = "; ".join(f"{count} because {reason}" for reason, count in reasons.most_common())
        caption += f" Dropped: {counted}."
    path = " ".join(piece for one, piece in zip(nodes, pieces, strict=True) if one.best)
    finished = sum(one.state == "finished" for one in nodes)
    tree = f"Beam tree of {len(nodes)} tokens over {steps} steps, {finished} finished sentences."
    alt = f"{tree} The best path is: {path}."
    size = (ACROSS * steps + 1.2, DOWN * tall + 1.4)
    return make_picture("Beam search, step by step", draw, size, caption, alt)


def _visible(nodes: Sequence[SearchNode], dropped: int) -> list[int]:
    """All kept nodes, and the best of those dropped at each step."""
    kept = [number for number, one in enumerate(nodes) if one.state != "dropped" or one.best]
    lost = set(range(len(nodes))).difference(kept)
    for step in {nodes[number].step for number in lost}:
        here = sorted(number for number in lost if nodes[number].step == step)
        kept += sorted(here, key=lambda one: -nodes[one].score)[:dropped]
    return sorted(kept)


def _rows(nodes: Sequence[SearchNode], visible: Sequence[int]) -> dict[int, int]:
    """The row of each node: its rank by score within its step."""
    rows: dict[int, int] = {}
    for step in sorted({nodes[number].step for number in visible}):
        here = [number for number in visible if nodes[number].step == step]
        for row, number in enumerate(sorted(here, key=lambda one: -nodes[one].score)):
            rows[number] = row
    return rows


def _tree(
    axes: Axes,
    nodes: Sequence[SearchNode],
    pieces: Sequence[str],
    rows: dict[int, int],
    steps: int,
    tall: int,
) -> None:
    for number, row in rows.items():
        one = nodes[number]
        colour = COLOURS["best" if one.best else one.state]
        parent = rows.get(one.parent) if one.parent is not None else 0
        if parent is not None:
            start = -0.75 if one.parent is None else nodes[one.parent].step + 0.36
            style = {"edgecolor": colour, "lw": 2.0 if one.best else 0.9, "zorder": 2 if one.best else 1}
            end = one.step - 0.36
            middle = (start + end) / 2
            axes.add_patch(curve([(start, parent), (middle, parent), (middle, row), (end, row)], **style))
        faint = one.state == "dropped" and not one.best
        ink = {"color": colour if faint else INK, "weight": "bold" if one.best else "normal"}
        write(axes, one.step, row - 0.13, shortened(pieces[number], 12), **ink)
        numbers = f"{one.log_prob:.2f} · {one.score:.2f}"
        write(axes, one.step, row + 0.24, numbers, fontsize=5.5, color=colour)
    for step in range(steps):
        write(axes, step, -0.95, f"step {step}", fontsize=TINY, color=FAINT)
    axes.set(xlim=(-0.9, steps - 0.4), ylim=(tall - 0.3, -1.3))
    axes.set_axis_off()

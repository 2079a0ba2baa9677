"""A beam search as a tree: hypotheses kept and dropped at each step, and the best path."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, INK, TINY, bare, shortened, write
from clearhead.inspection.pictures.subject import Subject

COLOURS = {"best": "#d55e00", "kept": "#145a9e", "finished": "#009e73", "dropped": "#a8a8a8"}
LABELS = {
    "best": "path of the output",
    "kept": "kept at its step",
    "finished": "finished sentence",
    "dropped": "dropped",
}
# Inches between steps and between rows.
ACROSS, DOWN = 1.25, 0.34


@dataclass(frozen=True)
class Branch:
    """One token that a search considered."""

    parent: int | None
    """The index of the branch before it; None at the start."""
    step: int
    token: str
    log_prob: float
    score: float
    """Of the path so far, with the length penalty."""
    state: Literal["kept", "finished", "dropped"]
    best: bool = False
    reason: str | None = None
    """Why it was dropped."""


def has_tree(context: PictureContext) -> bool:
    return context.explanation.tree is not None


def beam_view(context: PictureContext) -> Picture:
    tree = context.explanation.tree
    assert tree is not None
    pieces = context.explanation.pieces([node.token for node in tree.nodes])
    branches = [
        Branch(node.parent, node.step, piece, node.log_prob, node.score, node.state, node.best, node.reason)
        for node, piece in zip(tree.nodes, pieces, strict=True)
    ]
    return beam_picture(context.subject, branches)


def beam_picture(subject: Subject, branches: Sequence[Branch], dropped: int = 2) -> Picture:
    """The tree from left to right, better scores above, with at most `dropped` dropped branches per step."""
    visible = _visible(branches, dropped)
    rows = _rows(branches, visible)
    steps = max((branches[one].step for one in visible), default=0) + 1
    tall = max(rows.values(), default=0) + 1

    def draw(figure: Figure) -> None:
        figure.suptitle("Beam search, step by step", fontsize=10, x=0.01, ha="left")
        _tree(figure.subplots(), branches, rows, steps, tall)
        key = [Line2D([], [], color=colour, lw=2, label=LABELS[name]) for name, colour in COLOURS.items()]
        figure.legend(handles=key, loc="outside upper right", ncols=4, fontsize=TINY, frameon=False)

    left_out = len(branches) - len(visible)
    rest = f" {left_out} dropped hypotheses with lower scores are not drawn." if left_out else ""
    caption = (
        f"{subject} every step of the beam search from left to right, better scores above. Under each token: "
        f"its log-probability, and the score of the path with the length penalty.{rest}"
    )
    reasons = Counter(one.reason for one in branches if one.state == "dropped" and one.reason)
    if reasons:
        caption += (
            " Dropped: "
            + "; ".join(f"{count} because {reason}" for reason, count in reasons.most_common())
            + "."
        )
    path = " ".join(one.token for one in branches if one.best)
    finished = sum(one.state == "finished" for one in branches)
    tree = f"Beam tree of {len(branches)} tokens over {steps} steps, {finished} finished sentences."
    alt = f"{tree} The best path is: {path}."
    return make_picture(draw, (ACROSS * steps + 1.2, DOWN * tall + 1.4), caption, alt)


def _visible(branches: Sequence[Branch], dropped: int) -> list[int]:
    """All kept branches, and the best of those dropped at each step."""
    lost: dict[int, list[int]] = {}
    for number, one in enumerate(branches):
        if one.state == "dropped" and not one.best:
            lost.setdefault(one.step, []).append(number)
    few = {
        number
        for numbers in lost.values()
        for number in sorted(numbers, key=lambda one: -branches[one].score)[:dropped]
    }
    kept = [number for number, one in enumerate(branches) if one.state != "dropped" or one.best]
    return sorted({*kept, *few})


def _rows(branches: Sequence[Branch], visible: Sequence[int]) -> dict[int, int]:
    """The row of each branch: its rank by score within its step."""
    rows: dict[int, int] = {}
    for step in sorted({branches[number].step for number in visible}):
        here = [number for number in visible if branches[number].step == step]
        for row, number in enumerate(sorted(here, key=lambda one: -branches[one].score)):
            rows[number] = row
    return rows


def _tree(axes: Axes, branches: Sequence[Branch], rows: dict[int, int], steps: int, tall: int) -> None:
    for number, row in rows.items():
        one = branches[number]
        colour = COLOURS["best" if one.best else one.state]
        parent = rows.get(one.parent) if one.parent is not None else 0
        if parent is not None:
            start = -0.75 if one.parent is None else branches[one.parent].step + 0.36
            style = {"edgecolor": colour, "lw": 2.0 if one.best else 0.9, "zorder": 2 if one.best else 1}
            axes.add_patch(_curve(start, parent, one.step - 0.36, row, **style))
        faint = one.state == "dropped" and not one.best
        bold = "bold" if one.best else "normal"
        write(
            axes, one.step, row - 0.13, shortened(one.token, 12), color=colour if faint else INK, weight=bold
        )
        numbers = f"{one.log_prob:.2f} · {one.score:.2f}"
        write(axes, one.step, row + 0.24, numbers, fontsize=5.5, color=colour)
    for step in range(steps):
        write(axes, step, -0.95, f"step {step}", fontsize=TINY, color=FAINT)
    axes.set(xlim=(-0.9, steps - 0.4), ylim=(tall - 0.3, -1.3))
    bare(axes)


def _curve(x: float, y: float, to_x: float, to_y: float, **style: Any) -> PathPatch:
    middle = (x + to_x) / 2
    points = [(x, y), (middle, y), (middle, to_y), (to_x, to_y)]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    return PathPatch(path, facecolor="none", **style)

"""One query's row as arithmetic: products, scale, mask, exponentials, weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.scene import Scene
from clearhead.inspection.pictures.style import FAINT, GRID, SIGNED, SMALL, TINY, WEIGHT, bare, shortened, signed_scale
from clearhead.inspection.pictures.style import weight_scale, write

# So many keys are shown each by itself; all others together in one column.
SHOWN = 12


@dataclass(frozen=True)
class Row:
    """What one query of one head computes, key by key."""

    name: str
    head: int
    query: str
    keys: Sequence[str]
    scores: Float[Tensor, " keys"]
    masked: Float[Tensor, " keys"]
    weights: Float[Tensor, " keys"]
    products: Float[Tensor, " keys"] | None = None
    """q·k before it is scaled; None where the score is none."""
    scale: float | None = None

    @property
    def exponentials(self) -> Float[Tensor, " keys"]:
        """e to the power of the masked scores."""
        return self.masked.exp()


def row_picture(scene: Scene, row: Row) -> Picture:
    """The steps from scores to weights, for each key of one query."""
    order = row.weights.topk(min(SHOWN, len(row.keys))).indices.sort().values.tolist()
    others = [place for place in range(len(row.keys)) if place not in order]
    labels = [shortened(row.keys[place], 10) for place in order] + ([f"{len(others)} others"] if others else [])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        figure.suptitle(
            f"{row.name}, head {row.head}: how “{row.query}” looks around", fontsize=10, x=0.01, ha="left", parse_math=False
        )
        _table(axes, row, order, others, labels)

    caption = (
        f"{scene} one row of {row.name}, head {row.head}, the query “{row.query}”. {_formula(row)} The softmax is over all "
        f"{len(row.keys)} keys; weights sum to {float(row.weights.sum()):.4f}."
    )
    best = row.weights.topk(min(5, len(row.keys)))
    told = ", ".join(
        f"{row.keys[key]} score {row.scores[key]:.2f} weight {weight:.3f}"
        for key, weight in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    alt = f"From scores to weights for the query {row.query} in {row.name}, head {row.head}: {told}."
    return drawn(draw, (1.9 + 0.72 * len(labels), 3.3), caption, alt)


def _formula(row: Row) -> str:
    product = "" if row.products is None else f"q·k times {row.scale:.4g} is the score; "
    return f"{product[:1].upper()}{product[1:]}e^score over the sum of all e^score is the weight."


Line = tuple[str, list[str], list[float | None], str]


def _lines(row: Row, order: list[int], others: list[int]) -> list[Line]:
    """Each step: what it is called, its numbers as text and for colour, and which scale."""
    hidden = row.masked.isinf().tolist()
    rest = bool(others)

    def told(values: Tensor, form: str, last: str) -> tuple[list[str], list[float | None]]:
        shown = [float(values[place]) for place in order]
        return [form.format(value) for value in shown] + [last] * rest, [*shown, *([None] * rest)]

    lines: list[Line] = []
    if row.products is not None and row.scale is not None:
        lines.append(("q·k", *told(row.products, "{:.2f}", "…"), "signed"))
    name = "score" if row.scale is None else f"÷ {1 / row.scale:.4g} = score"
    lines.append((name, *told(row.scores, "{:.2f}", "…"), "signed"))
    if any(hidden):
        texts = ["hidden" if hidden[place] else "seen" for place in order] + [f"{sum(hidden[one] for one in others)} hidden"] * rest
        lines.append(("mask", texts, [None] * len(texts), "signed"))
    summed = float(row.exponentials[others].sum()) if rest else 0.0
    lines.append(("e^score", *told(row.exponentials, "{:.3g}", f"{summed:.3g}"), "none"))
    total = float(row.exponentials.sum())
    texts, values = told(row.weights, "{:.4f}", f"{float(row.weights[others].sum()) if rest else 0.0:.4f}")
    if rest:
        values[-1] = float(row.weights[others].sum())
    lines.append((f"÷ Σ = {total:.4g}", texts, values, "weight"))
    return lines


def _table(axes: Axes, row: Row, order: list[int], others: list[int], labels: list[str]) -> None:
    lines = _lines(row, order, others)
    largest = max((abs(value) for _, _, values, kind in lines if kind == "signed" for value in values if value), default=1.0)
    for column, label in enumerate(labels):
        write(axes, column, -0.85, label, weight="bold" if column < len(order) else "normal")
    for number, (name, texts, values, kind) in enumerate(lines):
        write(axes, -0.62, number, name, ha="right")
        for column, (text, value) in enumerate(zip(texts, values, strict=True)):
            colour = "white"
            if value is not None and kind == "signed":
                colour = SIGNED(signed_scale(1.4 * largest)(value))
            if value is not None and kind == "weight":
                colour = WEIGHT(weight_scale()(value))
            dark = kind == "weight" and value is not None and value > 0.3
            box = {"width": 1.0, "height": 0.86, "facecolor": colour, "edgecolor": GRID, "linewidth": 0.6}
            _box(axes, column - 0.5, number - 0.43, **box)
            faint = text in ("hidden", "…")
            write(axes, column, number, text, fontsize=7.5, color="white" if dark else FAINT if faint else "#1a1a1a")
    write(axes, -0.62, len(lines), f"Σ = {float(row.weights.sum()):.4f}", ha="right", fontsize=TINY, color=FAINT)
    write(axes, -0.62, -0.85, "key", ha="right", fontsize=TINY, color=FAINT)
    axes.set(xlim=(-2.3, len(labels) - 0.4), ylim=(len(lines) + 0.2, -1.3))
    bare(axes)


def _box(axes: Axes, x: float, y: float, width: float, height: float, **style) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, height, **style))

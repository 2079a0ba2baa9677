"""One query's row as arithmetic: products, scale, mask, exponentials, weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import (
    FAINT,
    GRID,
    INK,
    SIGNED,
    TINY,
    WEIGHT,
    bare,
    shortened,
    signed_scale,
    weight_scale,
    write,
)
from clearhead.inspection.pictures.subject import Subject

# So many keys are shown each by itself; all others together in one column.
SHOWN = 12
# Exponentials of larger scores are taken from the largest on, as the softmax does too.
LARGE = 30.0


@dataclass(frozen=True)
class Arithmetic:
    """What one query of one head computes, key by key."""

    name: str
    head: int
    query: str
    keys: Sequence[str]
    scores: Float[Tensor, " keys"]
    masked: Float[Tensor, " keys"]
    weights: Float[Tensor, " keys"]
    products: Float[Tensor, " keys"] | None = None
    """q·k before it is scaled; None where the score is no scaled product."""
    scale: float = 1.0

    @property
    def shift(self) -> float:
        """What is taken from each score before the exponential; it changes no weight."""
        largest = float(self.masked.max())
        return largest if largest > LARGE else 0.0

    @property
    def exponentials(self) -> Float[Tensor, " keys"]:
        return (self.masked - self.shift).exp()


@dataclass(frozen=True)
class Line:
    """One step of the arithmetic, as it is written and coloured."""

    name: str
    texts: list[str]
    colours: Sequence[Any]
    inks: list[str]


def arithmetic_picture(subject: Subject, row: Arithmetic) -> Picture:
    """The steps from scores to weights, for each key of one query; of many keys, the rest together."""
    shown: list[int] = row.weights.topk(min(SHOWN, len(row.keys))).indices.sort().values.tolist()
    labels = [shortened(row.keys[position], 10) for position in shown]
    if rest := len(row.keys) - len(shown):
        labels.append(f"{rest} others")

    def draw(figure: Figure) -> None:
        title = f"{row.name}, head {row.head}: what “{row.query}” looks at, step by step"
        figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
        _table(figure.subplots(), _lines(row, shown), labels)

    caption = (
        f"{subject} the row of the query “{row.query}” in {row.name}, head {row.head}. The softmax is over "
        f"all {len(row.keys)} keys; the weights sum to {float(row.weights.sum()):.4f}."
    )
    best = row.weights.topk(min(5, len(row.keys)))
    told = ", ".join(
        f"{row.keys[key]} score {row.scores[key]:.2f} weight {weight:.3f}"
        for key, weight in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    alt = f"From scores to weights for the query {row.query} in {row.name}, head {row.head}: {told}."
    return drawn(draw, (2.0 + 0.72 * max(len(labels), 5), 3.3), caption, alt)


def _lines(row: Arithmetic, shown: list[int]) -> list[Line]:
    others = torch.ones(len(row.keys), dtype=torch.bool)
    others[shown] = False
    rest = bool(others.any())
    hidden, total = row.masked.isinf(), float(row.exponentials.sum())
    lines = []
    if row.products is not None:
        lines.append(_signed("q·k", row.products, shown, rest))
    divided = "score" if row.products is None else f"÷ {1 / row.scale:.4g} = score"
    lines.append(_signed(divided, row.scores, shown, rest))
    if bool(hidden.any()):
        texts = ["hidden" if hidden[position] else "seen" for position in shown]
        texts += [f"{int(hidden[others].sum())} hidden"] * rest
        inks = [FAINT if "hidden" in text else INK for text in texts]
        lines.append(Line("mask", texts, ["white"] * len(texts), inks))
    powers = [f"{float(row.exponentials[position]):.3g}" for position in shown]
    powers += [f"{float(row.exponentials[others].sum()):.3g}"] * rest
    lifted = f"e^(score − {row.shift:.1f})" if row.shift else "e^score"
    lines.append(Line(f"{lifted}, Σ = {total:.4g}", powers, ["white"] * len(powers), [INK] * len(powers)))
    weights = [float(row.weights[position]) for position in shown] + [float(row.weights[others].sum())] * rest
    colours = [WEIGHT(weight_scale()(weight)) for weight in weights]
    inks = ["white" if weight > 0.3 else INK for weight in weights]
    lines.append(Line(f"÷ {total:.4g} = weight", [f"{weight:.4f}" for weight in weights], colours, inks))
    return lines


def _signed(name: str, values: Float[Tensor, " keys"], shown: list[int], rest: bool) -> Line:
    """Numbers around zero, coloured gently; those of the rest stay unsaid."""
    told = [float(values[position]) for position in shown]
    scale = signed_scale(1.6 * max(map(abs, told)))
    texts = [f"{value:.2f}" for value in told] + ["…"] * rest
    return Line(name, texts, [SIGNED(scale(value)) for value in told] + ["white"] * rest, [INK] * len(texts))


def _table(axes: Axes, lines: list[Line], labels: list[str]) -> None:
    for column, label in enumerate(labels):
        write(axes, column, -0.85, label, weight="bold")
    for number, line in enumerate(lines):
        write(axes, -0.62, number, line.name, ha="right")
        for column, (text, colour, ink) in enumerate(zip(line.texts, line.colours, line.inks, strict=True)):
            style = {
                "facecolor": colour,
                "edgecolor": GRID,
                "lw": 0.6,
                "hatch": "////" if text == "hidden" else None,
            }
            axes.add_patch(Rectangle((column - 0.5, number - 0.43), 1.0, 0.86, **style))
            write(axes, column, number, text, fontsize=7.5, color=ink)
    write(axes, -0.62, -0.85, "key", ha="right", fontsize=TINY, color=FAINT)
    axes.set(xlim=(-2.5, max(len(labels), 5) - 0.4), ylim=(len(lines) - 0.4, -1.3))
    bare(axes)

"""The attention of one query step by step: products, scale, mask, exponentials, weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from clearhead.errors import SettingsError
from clearhead.inspection.pictures import style
from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.layers.attention import Attention
from clearhead.layers.scores import Scaled

MAX_KEYS = 12
"""Keys with a column each; all others share one."""
MAX_SCORE = 30.0
"""Larger scores are shifted before the exponential, as the softmax does."""


@dataclass(frozen=True)
class Arithmetic:
    """The numbers of one query of one head, key by key."""

    name: str
    head: int
    query: str
    keys: Sequence[str]
    scores: Float[Tensor, " keys"]
    masked: Float[Tensor, " keys"]
    weights: Float[Tensor, " keys"]
    products: Float[Tensor, " keys"] | None = None
    """q·k before scaling; None if the score is not a scaled product."""
    scale: float = 1.0

    @property
    def shift(self) -> float:
        """What is subtracted from each score before the exponential; it does not change the weights."""
        largest = float(self.masked.max())
        return largest if largest > MAX_SCORE else 0.0

    @property
    def exponentials(self) -> Float[Tensor, " keys"]:
        return (self.masked - self.shift).exp()


@dataclass(frozen=True)
class Line:
    """One step of the arithmetic as text and colours."""

    name: str
    texts: list[str]
    colours: Sequence[Any]
    inks: Sequence[str]


def row_view(context: PictureContext) -> Picture:
    layer, head = context.layer_and_head()
    path = context.summaries.paths(context.kind)[layer]
    queries, keys = context.labels()
    query = len(queries) // 2 if context.selection.query is None else context.selection.query
    if not 0 <= query < len(queries):
        raise SettingsError(f"query: {query} is out of range; the text has positions 0 to {len(queries) - 1}")
    q, k, *steps = (
        context.summaries.tensor(f"{path}.{name}")[head]
        for name in ("queries", "keys", "scores", "masked", "weights")
    )
    scores, masked, weights = (step[query] for step in steps)
    scale = _scale(context.explanation.model.get_submodule(path))
    products = None if scale is None else k @ q[query]
    row = Arithmetic(path, head, queries[query], keys, scores, masked, weights, products, scale or 1.0)
    return arithmetic_picture(context.subject, row)


def _scale(attention: nn.Module) -> float | None:
    """The factor of q·k in a score; None if the score is anything else."""
    if isinstance(attention, Attention) and isinstance(attention.score, Scaled):
        return attention.score.scale if attention.relative.bias(1, 1) is None else None
    return None


def arithmetic_picture(subject: Subject, row: Arithmetic) -> Picture:
    """The steps from scores to weights for each key of one query; of many keys, the rest share a column."""
    shown: list[int] = row.weights.topk(min(MAX_KEYS, len(row.keys))).indices.sort().values.tolist()
    labels = [style.shortened(row.keys[position], 10) for position in shown]
    if rest := len(row.keys) - len(shown):
        labels.append(f"{rest} others")

    def draw(figure: Figure) -> None:
        _table(figure.subplots(), _lines(row, shown), labels)

    title = f"{row.name}, head {row.head}: the attention of “{row.query}”, step by step"
    caption = (
        f"{subject} the query “{row.query}” in {row.name}, head {row.head}. The softmax is over all "
        f"{len(row.keys)} keys; the weights sum to {float(row.weights.sum()):.4f}."
    )
    best = row.weights.topk(min(5, len(row.keys)))
    scored = ", ".join(
        f"{row.keys[key]} score {row.scores[key]:.2f} weight {weight:.3f}"
        for key, weight in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    alt = f"From scores to weights for the query {row.query} in {row.name}, head {row.head}: {scored}."
    return make_picture(title, draw, (2.0 + 0.72 * max(len(labels), 5), 3.3), caption, alt)


def _lines(row: Arithmetic, shown: list[int]) -> list[Line]:
    others = torch.ones(len(row.keys), dtype=torch.bool)
    others[shown] = False
    rest = bool(others.any())
    masked, total = row.masked.isinf(), float(row.exponentials.sum())
    lines = []
    if row.products is not None:
        lines.append(_signed("q·k", row.products, shown, rest))
    divided = "score" if row.products is None else f"÷ {1 / row.scale:.4g} = score"
    lines.append(_signed(divided, row.scores, shown, rest))
    if bool(masked.any()):
        texts = ["masked" if masked[position] else "visible" for position in shown]
        texts += [f"{int(masked[others].sum())} masked"] * rest
        inks = [style.FAINT if "masked" in text else style.INK for text in texts]
        lines.append(Line("mask", texts, ["white"] * len(texts), inks))
    powers = [f"{float(row.exponentials[position]):.3g}" for position in shown]
    powers += [f"{float(row.exponentials[others].sum()):.3g}"] * rest
    power = f"e^(score − {row.shift:.1f})" if row.shift else "e^score"
    plain = ["white"] * len(powers), [style.INK] * len(powers)
    lines.append(Line(f"{power}, Σ = {total:.4g}", powers, *plain))
    weights = [float(row.weights[position]) for position in shown] + [float(row.weights[others].sum())] * rest
    colours = [style.WEIGHT(style.weight_scale()(weight)) for weight in weights]
    inks = ["white" if weight > 0.3 else style.INK for weight in weights]
    lines.append(Line(f"÷ {total:.4g} = weight", [f"{weight:.4f}" for weight in weights], colours, inks))
    return lines


def _signed(name: str, values: Float[Tensor, " keys"], shown: list[int], rest: bool) -> Line:
    """Signed numbers in pale colours; the column of the rest stays empty."""
    numbers = [float(values[position]) for position in shown]
    scale = style.signed_scale(1.6 * max(map(abs, numbers)))
    texts = [f"{value:.2f}" for value in numbers] + ["…"] * rest
    colours = [style.SIGNED(scale(value)) for value in numbers] + ["white"] * rest
    return Line(name, texts, colours, [style.INK] * len(texts))


def _table(axes: Axes, lines: list[Line], labels: list[str]) -> None:
    for column, label in enumerate(labels):
        style.write(axes, column, -0.85, label, weight="bold")
    for number, line in enumerate(lines):
        style.write(axes, -0.62, number, line.name, ha="right")
        for column, (text, colour, ink) in enumerate(zip(line.texts, line.colours, line.inks, strict=True)):
            look = {
                "facecolor": colour,
                "edgecolor": style.GRID,
                "lw": 0.6,
                "hatch": "////" if text == "masked" else None,
            }
            axes.add_patch(Rectangle((column - 0.5, number - 0.43), 1.0, 0.86, **look))
            style.write(axes, column, number, text, fontsize=7.5, color=ink)
    style.write(axes, -0.62, -0.85, "key", ha="right", fontsize=style.TINY, color=style.FAINT)
    axes.set(xlim=(-2.5, max(len(labels), 5) - 0.4), ylim=(len(lines) - 0.4, -1.3))
    axes.set_axis_off()

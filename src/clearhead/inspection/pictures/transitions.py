"""What follows each token: rows of a transition matrix, and the order of the n-grams that they come from."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.matrix import label_tokens, weight_legend, write_numbers
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import SMALL, WEIGHT, weight_scale

MAX_POSITIONS = 24
"""Of longer texts, only the last positions are drawn."""
MAX_WORDS = 24
EACH = 3
"""The most probable words of a row that get a column, if there is room."""
ORDERS = "orders"
"""The tensor with the share of each order, from 0 up, in each prediction."""


def has_transitions(context: PictureContext) -> bool:
    return ORDERS in context.explanation.trace and "logits" in context.explanation.trace


def transitions_view(context: PictureContext) -> Picture:
    explanation = context.explanation
    first = max(0, len(explanation.target) - MAX_POSITIONS)
    probabilities = explanation["logits"][first:].softmax(-1)
    likely = probabilities.max(0).values
    words = {word for row in probabilities.topk(min(EACH, len(likely))).indices.tolist() for word in row}
    chosen = sorted(sorted(words, key=lambda word: -likely[word])[:MAX_WORDS])
    return transitions_picture(
        context.subject,
        [token.piece for token in explanation.target[first:]],
        list(map(explanation.piece, chosen)),
        probabilities[:, chosen],
        explanation[ORDERS][first:],
    )


def transitions_picture(
    subject: Subject,
    tokens: Sequence[str],
    words: Sequence[str],
    probabilities: Float[Tensor, "positions words"],
    orders: Float[Tensor, "positions orders"],
) -> Picture:
    """Heat maps of the next word after each token, and of the orders that predict it."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[len(words), orders.shape[1]], sharey=True)
        image = _heat_map(left, tokens, words, probabilities)
        left.set_ylabel("after ↓ comes →", fontsize=SMALL)
        _heat_map(right, tokens, [f"{number}" for number in range(orders.shape[1])], orders)
        right.set_ylabel("")
        right.set_xlabel("order", fontsize=SMALL)
        weight_legend(figure, image, right, name="p")

    caption = (
        f"{subject} the probability of likely next words after each token (left), and how much of it comes "
        "from n-grams of each order (right; 0: any word). Colour by √p, 0 to 1."
    )
    best = probabilities.max(1)
    pairs = zip(tokens, best.indices.tolist(), best.values.tolist(), strict=True)
    texts = ", ".join(f"{token}: {words[word]} ({value:.2f})" for token, word, value in pairs)
    alt = f"The most probable next word after each token: {texts}."
    size = (0.42 * (len(words) + orders.shape[1]) + 2.6, 0.34 * len(tokens) + 2.2)
    return make_picture("What follows each token", draw, size, caption, alt)


def _heat_map(axes: Axes, rows: Sequence[str], columns: Sequence[str], cells: Tensor) -> AxesImage:
    colours: dict[str, Any] = {"cmap": WEIGHT, "norm": weight_scale()}
    image = axes.imshow(cells.numpy(), aspect="auto", interpolation="nearest", **colours)
    label_tokens(axes, rows, columns)
    write_numbers(axes, cells, None)
    return image

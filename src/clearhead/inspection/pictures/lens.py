"""The logit lens: a grid of the model's predictions after each layer, at each position."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.matrix import weight_legend
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import INK, SMALL, TINY, WEIGHT, shortened, weight_scale, write
from clearhead.inspection.summaries import Lens

MAX_POSITIONS = 24
"""Of longer texts, only the last positions are drawn."""


def lens_view(context: PictureContext) -> Picture:
    explanation, target = context.explanation, context.explanation.target
    following = ["" if token.next is None else explanation.piece(token.next) for token in target]
    tokens, lens = [token.piece for token in target], context.summaries.lens(1)
    return lens_picture(context.subject, lens, tokens, following, explanation.piece)


def lens_picture(
    subject: Subject, lens: Lens, tokens: Sequence[str], following: Sequence[str], piece: Callable[[int], str]
) -> Picture:
    """Layers upwards, positions to the right: the most probable token, coloured by its probability."""
    first = max(0, len(tokens) - MAX_POSITIONS)
    tokens, following = tokens[first:], following[first:]
    probabilities = lens.probabilities[:, first:, 0]
    predicted = [[piece(one) for one in row] for row in lens.ids[:, first:, 0].tolist()]
    rows, positions = probabilities.shape

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        style = {"cmap": WEIGHT, "norm": weight_scale(), "aspect": "auto", "origin": "lower"}
        image = axes.imshow(probabilities.numpy(), **style)
        for row, cells in enumerate(predicted):
            for position, token in enumerate(cells):
                colour = "white" if probabilities[row, position] > 0.3 else INK
                weight = "bold" if token == following[position] else "normal"
                write(axes, position, row, shortened(token, 10), fontsize=TINY, color=colour, weight=weight)
        slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
        axes.set_xticks(range(positions), [shortened(one, 10) for one in tokens], fontsize=SMALL, **slanted)
        axes.set_yticks(range(rows), lens.rows, fontsize=SMALL)
        axes.tick_params(length=0)
        axes.set_xlabel("input token", fontsize=SMALL)
        weight_legend(figure, image, axes, name="p")

    caption = (
        f"{subject} the residual stream after each layer, read out as if it were the last (logit lens). "
        "Bold: the actual next token; colour by √p of the predicted token, 0 to 1."
    )
    finals = [
        f"{token}: {column[-1]} from {lens.rows[_since(column)]} on"
        for token, column in zip(tokens, zip(*predicted, strict=True), strict=True)
    ]
    alt = f"Logit lens. The final prediction after each token, and since which row: {', '.join(finals)}."
    title = "Logit lens: predictions if the model stopped here"
    return make_picture(title, draw, (0.72 * positions + 2.2, 0.3 * rows + 1.9), caption, alt)


def _since(predicted: Sequence[str]) -> int:
    """The row from which on the last prediction holds."""
    return next(row for row in range(len(predicted)) if len(set(predicted[row:])) == 1)

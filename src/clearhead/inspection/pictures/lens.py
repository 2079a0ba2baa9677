"""The logit lens as a grid: after each layer, what the model would say at each position."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from clearhead.inspection.lens import Lens
from clearhead.inspection.pictures.matrix import legend_of_weights
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import INK, SMALL, TINY, WEIGHT, shortened, weight_scale, write
from clearhead.inspection.pictures.subject import Subject

# Of a longer text, its last positions.
MOST = 24


def lens_picture(
    subject: Subject, lens: Lens, tokens: Sequence[str], comes: Sequence[str], piece: Callable[[int], str]
) -> Picture:
    """Layers upwards, positions to the right: the best token, coloured by its probability."""
    first = max(0, len(tokens) - MOST)
    tokens, comes = tokens[first:], comes[first:]
    sure = lens.probabilities[:, first:, 0]
    said = [[piece(one) for one in line] for line in lens.ids[:, first:, 0].tolist()]
    rows, positions = sure.shape

    def draw(figure: Figure) -> None:
        title = "Logit lens: what would be said if the model stopped here"
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        axes = figure.subplots()
        image = axes.imshow(sure.numpy(), cmap=WEIGHT, norm=weight_scale(), aspect="auto", origin="lower")
        for row, line in enumerate(said):
            for position, token in enumerate(line):
                colour = "white" if sure[row, position] > 0.3 else INK
                weight = "bold" if token == comes[position] else "normal"
                write(axes, position, row, shortened(token, 10), fontsize=TINY, color=colour, weight=weight)
        slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
        axes.set_xticks(range(positions), [shortened(one, 10) for one in tokens], fontsize=SMALL, **slanted)
        axes.set_yticks(range(rows), lens.rows, fontsize=SMALL)
        axes.tick_params(length=0)
        axes.set_xlabel("token that is read", fontsize=SMALL)
        legend_of_weights(figure, image, axes, name="p")

    caption = (
        f"{subject} the stream after each layer, read out as if it were the last (logit lens). Bold: the "
        "token that comes; colour by √p of the token that is written, 0 to 1."
    )
    told = [
        f"{token}: {said[-1][position]} from {lens.rows[_since([line[position] for line in said])]} on"
        for position, token in enumerate(tokens)
    ]
    alt = f"Logit lens. After each token, what is said in the end, and since when: {', '.join(told)}."
    return drawn(draw, (0.72 * positions + 2.2, 0.3 * rows + 1.9), caption, alt)


def _since(said: list[str]) -> int:
    """From which row on the last one is said."""
    return next(row for row in range(len(said)) if len(set(said[row:])) == 1)

"""Which tokens of the vocabulary lie near those of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import SMALL, TINY, WEIGHT, shortened, write
from clearhead.inspection.pictures.subject import Subject

ACROSS = 4
# A text has more tokens than one can compare.
MOST = 16


@dataclass(frozen=True)
class Neighbours:
    """A token, and those that lie the nearest to it, with their cosines."""

    token: str
    near: Sequence[tuple[str, float]]


def neighbours_picture(subject: Subject, tokens: Sequence[Neighbours]) -> Picture:
    """For each token, the nearest ones of the vocabulary as bars of their cosines."""
    tokens = tokens[:MOST]
    across = min(ACROSS, len(tokens))
    down = -(-len(tokens) // across)
    count = max(len(one.near) for one in tokens)

    def draw(figure: Figure) -> None:
        figure.suptitle("Nearest tokens of the vocabulary, by embedding", fontsize=10, x=0.01, ha="left")
        grid = figure.subplots(down, across, squeeze=False, sharex=True)
        for axes, one in zip(grid.flat, tokens, strict=False):
            cosines = [cosine for _, cosine in one.near]
            axes.barh(
                range(len(cosines)),
                cosines,
                color=[WEIGHT(0.25 + 0.5 * max(cosine, 0)) for cosine in cosines],
            )
            names = [shortened(name) for name, _ in one.near]
            axes.set_yticks(range(len(names)), names, fontsize=SMALL, parse_math=False)
            for row, cosine in enumerate(cosines):
                write(axes, max(cosine, 0) + 0.02, row, f"{cosine:.2f}", ha="left", fontsize=TINY)
            axes.set_title(shortened(one.token), fontsize=9, weight="bold", loc="left", parse_math=False)
            axes.set(xlim=(0, 1.12), ylim=(count - 0.4, -0.6))
            axes.tick_params(length=0)
            axes.set_xticks([])
            axes.spines[["top", "right", "bottom"]].set_visible(False)
        for axes in grid.flat[len(tokens) :]:
            axes.set_axis_off()

    caption = (
        f"{subject} the nearest tokens to each in the embedding; bars are cosines, 1 is the same direction."
    )
    told = "; ".join(
        f"{one.token}: " + ", ".join(f"{name} {cosine:.2f}" for name, cosine in one.near[:3])
        for one in tokens
    )
    alt = f"Nearest tokens of the vocabulary by cosine of their embeddings. {told}."
    return drawn(draw, (2.4 * max(across, 2), down * (0.24 * count + 0.45) + 0.9), caption, alt)

"""A map of words: their vectors along the two directions in which they vary most."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, GRID, HEADS, INK, SMALL, shortened, write
from clearhead.inspection.vectors import principal_components


def word_map(
    model: str, words: Sequence[str], vectors: Float[Tensor, "words width"], chosen: int | None = None
) -> Picture:
    """The first two principal components of vectors; the first `chosen` words are emphasised."""
    chosen = len(words) if chosen is None else chosen
    coordinates, share = principal_components(vectors.float().cpu())
    points = coordinates.tolist()

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for group, colour in ((slice(chosen, None), FAINT), (slice(chosen), HEADS[0])):
            if points[group]:
                axes.scatter(*zip(*points[group], strict=True), s=14, color=colour)
        for number, (word, (x, y)) in enumerate(zip(words, points, strict=True)):
            style = {"weight": "bold", "color": INK} if number < chosen else {"color": FAINT}
            write(axes, x, y, f" {shortened(word, 40)}", ha="left", fontsize=SMALL, **style)
        axes.axhline(0, color=GRID, linewidth=0.6, zorder=0)
        axes.axvline(0, color=GRID, linewidth=0.6, zorder=0)
        axes.margins(0.12)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)

    caption = (
        f"Model {model}: {len(words)} word vectors along the two directions in which they vary most, "
        f"which hold {share:.0%} of the variance."
    )
    places = ", ".join(
        f"{word} ({x:.2f}, {y:.2f})" for word, (x, y) in zip(words[:12], points, strict=False)
    )
    alt = f"A map of word vectors by their first two principal components. {places}."
    return make_picture("Word vectors", draw, (7.0, 5.5), caption, alt)

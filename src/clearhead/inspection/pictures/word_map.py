"""A map of words: their vectors along the two directions in which they vary most."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import FAINT, GRID, HEADS, INK, SMALL, shortened, write
from clearhead.inspection.vectors import Neighbour, principal_components


def word_map(
    model: str, words: Sequence[str], vectors: Float[Tensor, "words width"], chosen: int | None = None
) -> Picture:
    """The first two principal components of the unit vectors; the first `chosen` words are emphasised."""
    chosen = len(words) if chosen is None else chosen
    coordinates, share = principal_components(F.normalize(vectors.float().cpu(), dim=-1))
    points, across = coordinates.tolist(), coordinates[:, 0]
    middle = float(across.min() + across.max()) / 2

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for group, colour in ((slice(chosen, None), FAINT), (slice(chosen), HEADS[0])):
            if points[group]:
                axes.scatter(*zip(*points[group], strict=True), s=14, color=colour)
        for number, (word, (x, y)) in enumerate(zip(words, points, strict=True)):
            style = {"weight": "bold", "color": INK} if number < chosen else {"color": FAINT}
            # Towards the middle, where there is room.
            side = "left" if x <= middle else "right"
            write(axes, x, y, f" {shortened(word, 40)} ", ha=side, fontsize=SMALL, **style)
        axes.axhline(0, color=GRID, linewidth=0.6, zorder=0)
        axes.axvline(0, color=GRID, linewidth=0.6, zorder=0)
        axes.margins(0.12)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)

    caption = (
        f"Model {model or 'without a name'}: {len(words)} vectors of length 1 along the two directions in "
        f"which they vary most, which hold {share:.0%} of the variance."
    )
    located = ", ".join(
        f"{word} ({x:.2f}, {y:.2f})" for word, (x, y) in zip(words[:12], points, strict=False)
    )
    alt = f"A map of word vectors by their first two principal components. {located}."
    return make_picture("Word vectors", draw, (7.0, 5.5), caption, alt)


def neighbour_map(
    model: str,
    matrix: Float[Tensor, "words width"],
    points: Sequence[tuple[str, Float[Tensor, " width"]]],
    near: Sequence[Neighbour],
) -> Picture:
    """A map of vectors with names, and of the neighbours that were found for them."""
    others = {one.word: one.id for one in near if one.word not in dict(points)}
    vectors = torch.stack(
        [vector.to(matrix) for _, vector in points] + [matrix[row] for row in others.values()]
    )
    return word_map(model, [*(name for name, _ in points), *others], vectors, len(points))

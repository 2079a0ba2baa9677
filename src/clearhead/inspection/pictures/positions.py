"""How a model tells positions apart: the numbers, some of them as waves, and how alike positions are."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from clearhead.errors import SettingsError
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import FAINT, GRID, HEADS, SIGNED, SMALL, TINY, signed_scale, write
from clearhead.inspection.vectors import ComparedPlaces

LANES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Which columns are drawn as curves, beside the first: at these shares of all."""
SAID = {
    "sinusoidal": "sine and cosine of the position, slower from left to right, added to the embedding",
    "learned": "a learned vector for each position, added to the embedding",
    "order": "the position itself in every dimension, added to the embedding: it has no bound",
    "fraction": "the position as a share of the length, in every dimension, added to the embedding",
    "rotary": "cosine of the angle by which each pair of dimensions of queries and keys is turned",
    "alibi": "what is added to a score, by distance and head",
}


def positions_picture(model: str, table: ComparedPlaces | None) -> Picture:
    """Heat map, curves and similarity of any kind of position."""
    if table is None:
        raise SettingsError(f"{model}: this model has no positions, so there is nothing to draw")
    positions, features = table.rows.shape

    def draw(figure: Figure) -> None:
        figure.suptitle(f"{table.kind} positions: {SAID[table.kind]}", fontsize=10, x=0.01, ha="left")
        panels = figure.subplots(1, 4, width_ratios=(1.2, 1, 1.1, 1))
        _heat(figure, panels[0], table)
        _curves(panels[1], table)
        _similarity(figure, panels[2], table)
        _from_places(panels[3], table)
        for axes in panels:
            axes.tick_params(labelsize=TINY, length=2)

    caption = (
        f"Model {model}: its {table.kind} positions, the first {positions} positions. From left to right: every "
        f"number; some columns as curves; {_alike(table)}, for all positions and for three of them. Blue "
        "is below zero, white zero, orange above."
    )
    near, far = float(table.similarity[0, 1]), float(table.similarity[0, -1])
    alt = (
        f"{table.kind} positions of {positions} positions and {features} columns: {SAID[table.kind]}. The first "
        f"position and the next are alike by {near:.2f}, the first and the last by {far:.2f}."
    )
    return drawn(draw, (13.0, 3.9), caption, alt)


def _feature(table: ComparedPlaces) -> str:
    match table.kind:
        case "rotary":
            return "pair of dimensions →"
        case "alibi":
            return "head →"
        case _:
            return "dimension →"


def _place(table: ComparedPlaces) -> str:
    return "distance ↓" if table.kind == "alibi" else "position ↓"


def _alike(table: ComparedPlaces) -> str:
    match table.kind:
        case "rotary":
            return "cosine of a query and an equal key at two positions"
        case "alibi":
            return "what is added to a score between two positions, mean of all heads"
        case _:
            return "cosine of two positions"


def _heat(figure: Figure, axes: Axes, table: ComparedPlaces) -> None:
    style = {"cmap": SIGNED, "norm": signed_scale(float(table.rows.abs().max()))}
    image = axes.imshow(table.rows.numpy(), aspect="auto", interpolation="nearest", **style)
    axes.set_xlabel(_feature(table), fontsize=SMALL)
    axes.set_ylabel(_place(table), fontsize=SMALL)
    _scale(figure, image, axes)


def _curves(axes: Axes, table: ComparedPlaces) -> None:
    """Some columns, each in a lane of its own, so that none hides another."""
    features = table.rows.shape[1]
    alike = table.kind in ("order", "fraction")
    chosen = [0] if alike else sorted({int(features * share) for share in LANES} | {0})
    chosen = [one - one % 2 for one in chosen] if table.kind == "sinusoidal" else chosen
    tall = 2.4 * float(table.rows.abs().max())
    for lane, column in enumerate(dict.fromkeys(chosen)):
        axes.axhline(-lane * tall, color=GRID, lw=0.6)
        axes.plot(table.rows[:, column].numpy() - lane * tall, color=HEADS[lane % len(HEADS)], lw=1.2)
        write(axes, -1.5, -lane * tall, "" if alike else str(column), ha="right", fontsize=TINY)
    axes.set_yticks([])
    axes.set_xlabel(_place(table).replace("↓", "→"), fontsize=SMALL)
    named = f"{'every ' if alike else ''}{_feature(table).removesuffix(' →')}"
    axes.set_title(f"{named} as a curve", fontsize=SMALL, color=FAINT)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _similarity(figure: Figure, axes: Axes, table: ComparedPlaces) -> None:
    style = {"cmap": SIGNED, "norm": signed_scale(float(table.similarity.abs().max()))}
    image = axes.imshow(table.similarity.numpy(), aspect="auto", interpolation="nearest", **style)
    axes.set_title(_title(table), fontsize=SMALL, color=FAINT)
    axes.set_xlabel("position →", fontsize=SMALL)
    _scale(figure, image, axes)


def _from_places(axes: Axes, table: ComparedPlaces) -> None:
    """The similarity of three positions to all others."""
    positions = len(table.similarity)
    for number, position in enumerate(sorted({0, positions // 2, positions - 1})):
        colour = HEADS[number]
        axes.plot(table.similarity[position].numpy(), color=colour, lw=1.2)
        axes.plot([position], [float(table.similarity[position, position])], "o", color=colour, markersize=3)
    axes.set_xlabel("position →", fontsize=SMALL)
    axes.set_title("the same from three positions", fontsize=SMALL, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)


def _title(table: ComparedPlaces) -> str:
    return "mean bias between positions" if table.kind == "alibi" else "cosine between positions"


def _scale(figure: Figure, image: AxesImage, axes: Axes) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, aspect=30)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]

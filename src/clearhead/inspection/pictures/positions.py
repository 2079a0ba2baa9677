"""How a model tells places apart: the numbers, some of them as waves, and how alike places are."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.errors import SettingsError
from clearhead.inspection.pictures.picture import Picture, drawn
from clearhead.inspection.pictures.style import FAINT, HEADS, SIGNED, SMALL, TINY, signed_scale
from clearhead.inspection.vectors import PositionTable

WAVES = 6
SAID = {
    "sinusoidal": "sine and cosine of the place, slower from left to right, added to the embedding",
    "learned": "a learned vector for each place, added to the embedding",
    "order": "the place itself in every dimension, added to the embedding: it has no bound",
    "fraction": "the place as a share of the length, in every dimension, added to the embedding",
    "rotary": "cosine of the angle by which each pair of dimensions of queries and keys is turned",
    "alibi": "what is added to a score, by distance and head",
}


def positions_picture(model: str, table: PositionTable | None) -> Picture:
    """Heat map, curves and similarity of any kind of position."""
    if table is None:
        raise SettingsError(f"{model}: this model has no positions, so there is nothing to draw")
    places, features = table.rows.shape

    def draw(figure: Figure) -> None:
        title = f"{table.kind} positions: {SAID[table.kind]}"
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
        largest = float(table.rows.abs().max())
        style = {"cmap": SIGNED, "norm": signed_scale(largest), "aspect": "auto", "interpolation": "nearest"}
        image = left.imshow(table.rows.numpy(), **style)
        left.set_xlabel(_feature(table), fontsize=SMALL)
        left.set_ylabel(_place(table), fontsize=SMALL)
        bar = figure.colorbar(image, ax=left, shrink=0.8, pad=0.02, aspect=30)
        bar.ax.tick_params(labelsize=TINY)
        _curves(middle, table)
        _similarity(figure, right, table)
        for axes in (left, middle, right):
            axes.tick_params(labelsize=TINY, length=2)

    caption = (
        f"Model {model}: its {table.kind} positions, the first {places} places. Left: every number; middle: "
        f"some columns as curves; right: {_alike(table)}. Colours: blue below zero, white zero, orange above."
    )
    near, far = float(table.similarity[0, 1]), float(table.similarity[0, -1])
    alt = (
        f"{table.kind} positions of {places} places and {features} columns: {SAID[table.kind]}. The first place and "
        f"the next are alike by {near:.2f}, the first and the last by {far:.2f}."
    )
    return drawn(draw, (11.0, 4.2), caption, alt)


def _feature(table: PositionTable) -> str:
    match table.kind:
        case "rotary":
            return "pair of dimensions →"
        case "alibi":
            return "head →"
        case _:
            return "dimension →"


def _place(table: PositionTable) -> str:
    return "distance ↓" if table.kind == "alibi" else "place ↓"


def _alike(table: PositionTable) -> str:
    match table.kind:
        case "rotary":
            return "cosine of a query and an equal key at two places"
        case "alibi":
            return "what is added to a score between two places, mean of all heads"
        case _:
            return "cosine of two places"


def _curves(axes: Axes, table: PositionTable) -> None:
    """Columns from fast to slow; those that are alike would hide each other."""
    features = table.rows.shape[1]
    if table.kind in ("order", "fraction"):
        chosen = [0]
    else:
        count = min(WAVES, features)
        chosen = sorted({round(features ** (number / max(count - 1, 1))) - 1 for number in range(count)})
        chosen = [min(features - 1, one + one % 2) if table.kind == "sinusoidal" else one for one in chosen]
    for number, column in enumerate(dict.fromkeys(chosen)):
        axes.plot(table.rows[:, column].numpy(), color=HEADS[number], lw=1.2, label=f"{column}")
    axes.set_xlabel(_place(table).replace("↓", "→"), fontsize=SMALL)
    axes.set_title(_feature(table).replace(" →", "") + " as a curve", fontsize=SMALL, color=FAINT)
    axes.legend(fontsize=TINY, frameon=False, loc="upper right", ncols=2)
    axes.spines[["top", "right"]].set_visible(False)


def _similarity(figure: Figure, axes: Axes, table: PositionTable) -> None:
    values = table.similarity
    style = {"cmap": SIGNED, "norm": signed_scale(float(values.abs().max())), "interpolation": "nearest"}
    image = axes.imshow(values.numpy(), **style)
    axes.set_title(_alike(table), fontsize=SMALL, color=FAINT, wrap=True)
    axes.set_xlabel("place →", fontsize=SMALL)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, aspect=30)
    bar.ax.tick_params(labelsize=TINY)

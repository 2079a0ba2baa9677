"""Position encodings: all numbers, some of them as curves, and the similarity of positions."""

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.pictures.context import PictureContext
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import (
    FAINT,
    GRID,
    HEADS,
    SIGNED,
    SMALL,
    TINY,
    colour_bar,
    signed_scale,
    write,
)
from clearhead.inspection.vectors import PositionSimilarity, position_kind, position_similarity
from clearhead.layers.attention import Attention
from clearhead.layers.embedding import Embedding
from clearhead.layers.positions import Relative

CURVES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""The columns that are drawn as curves beside the first, as fractions of all."""
MAX_POSITIONS = 64
DESCRIPTIONS = {
    "sinusoidal": "sine and cosine of the position, slower from left to right, added to the embedding",
    "learned": "a learned vector for each position, added to the embedding",
    "order": "the position itself in every dimension, added to the embedding without bound",
    "fraction": "the position as a fraction of the length in every dimension, added to the embedding",
    "rotary": "cosine of the angle by which each pair of dimensions of queries and keys is rotated",
    "alibi": "the bias that is added to a score, by distance and head",
}

COLUMNS = {"rotary": "pair of dimensions", "alibi": "head"}
"""What a column of the numbers stands for; a dimension by default."""
SIMILARITIES = {
    "rotary": "cosine of equal vectors rotated to two positions",
    "alibi": "mean bias of all heads on a score between two positions",
}


def has_positions(context: PictureContext) -> bool:
    parts = _parts(context)
    return parts is not None and position_kind(parts[0].position, parts[1]) != "none"


def positions_view(context: PictureContext) -> Picture:
    parts = _parts(context)
    assert parts is not None
    embedding, relative = parts
    length, width = min(MAX_POSITIONS, embedding.max_positions), embedding.weight.shape[1]
    table = position_similarity(embedding.position, relative, length, width, embedding.weight.device)
    return positions_picture(context.subject.model, table)


def _parts(context: PictureContext) -> tuple[Embedding, Relative] | None:
    """The embedding of the output side and the relative positions of its self-attention."""
    anatomy, model = context.anatomy, context.explanation.model
    side = anatomy.output_side
    embedding = model.get_submodule(anatomy.embeddings[side]) if side in anatomy.embeddings else None
    own = [part for part in anatomy.attentions if part.queries == part.keys == side]
    attention = model.get_submodule(own[0].path(0)) if own else None
    relative = attention.relative if isinstance(attention, Attention) else Relative()
    return (embedding, relative) if isinstance(embedding, Embedding) else None


def positions_picture(model: str, table: PositionSimilarity | None) -> Picture:
    """Heat map, curves and similarity of a position encoding."""
    if table is None:
        raise SettingsError(f"{model}: the model has no positions to draw")
    positions, features = table.rows.shape
    column, alibi = COLUMNS.get(table.kind, "dimension"), table.kind == "alibi"
    row, measure = ("distance", "mean bias") if alibi else ("position", "cosine")

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 4, width_ratios=(1.2, 1, 1.1, 1))
        _heat(figure, panels[0], table.rows)
        panels[0].set_xlabel(f"{column} →", fontsize=SMALL)
        panels[0].set_ylabel(f"{row} ↓", fontsize=SMALL)
        _curves(panels[1], table, column)
        panels[1].set_xlabel(f"{row} →", fontsize=SMALL)
        _heat(figure, panels[2], table.similarity)
        panels[2].set_ylabel("position ↓", fontsize=SMALL)
        panels[2].set_title(f"{measure} between positions", fontsize=SMALL, color=FAINT)
        _from_positions(panels[3], table)
        for axes in panels:
            axes.tick_params(labelsize=TINY, length=2)
        for axes in panels[2:]:
            axes.set_xlabel("position →", fontsize=SMALL)

    similarity = SIMILARITIES.get(table.kind, "cosine of two positions")
    caption = (
        f"Model {model}: the first {positions} of its {table.kind} positions. From left to right: all "
        f"numbers; some columns as curves; {similarity}, for all positions and for three of "
        "them. Blue is negative, white zero, orange positive."
    )
    near, far = float(table.similarity[0, 1]), float(table.similarity[0, -1])
    alt = (
        f"{table.kind} positions, {positions} rows and {features} columns: {DESCRIPTIONS[table.kind]}. The "
        f"similarity of the first and second position is {near:.2f}, of the first and last {far:.2f}."
    )
    title = f"{table.kind} positions: {DESCRIPTIONS[table.kind]}"
    return make_picture(title, draw, (13.0, 3.9), caption, alt)


def _heat(figure: Figure, axes: Axes, values: Float[Tensor, "rows columns"]) -> None:
    style = {"cmap": SIGNED, "norm": signed_scale(float(values.abs().max()))}
    image = axes.imshow(values.numpy(), aspect="auto", interpolation="nearest", **style)
    colour_bar(figure, image, axes)


def _curves(axes: Axes, table: PositionSimilarity, column_name: str) -> None:
    """Some columns, one above the other, so that none hides another."""
    features = table.rows.shape[1]
    uniform = table.kind in ("order", "fraction")
    chosen = [0] if uniform else sorted({int(features * share) for share in CURVES} | {0})
    chosen = [one - one % 2 for one in chosen] if table.kind == "sinusoidal" else chosen
    tall = 2.4 * float(table.rows.abs().max())
    for lane, column in enumerate(dict.fromkeys(chosen)):
        axes.axhline(-lane * tall, color=GRID, lw=0.6)
        axes.plot(table.rows[:, column].numpy() - lane * tall, color=HEADS[lane % len(HEADS)], lw=1.2)
        write(axes, -1.5, -lane * tall, "" if uniform else str(column), ha="right", fontsize=TINY)
    axes.set_yticks([])
    axes.set_title(f"{'every ' if uniform else ''}{column_name} as a curve", fontsize=SMALL, color=FAINT)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _from_positions(axes: Axes, table: PositionSimilarity) -> None:
    """The similarity of three positions to all others."""
    positions = len(table.similarity)
    for number, position in enumerate(sorted({0, positions // 2, positions - 1})):
        colour = HEADS[number]
        axes.plot(table.similarity[position].numpy(), color=colour, lw=1.2)
        axes.plot([position], [float(table.similarity[position, position])], "o", color=colour, markersize=3)
    axes.set_title("the same from three positions", fontsize=SMALL, color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)

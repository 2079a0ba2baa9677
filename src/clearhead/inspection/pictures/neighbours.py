"""The nearest tokens of the vocabulary to the tokens of a text, by embedding."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from clearhead.inspection.explanation import Token
from clearhead.inspection.pictures.context import PictureContext, Subject
from clearhead.inspection.pictures.picture import Picture, make_picture
from clearhead.inspection.pictures.style import SMALL, TINY, WEIGHT, shortened, write
from clearhead.inspection.vectors import nearest
from clearhead.layers.embedding import Embedding
from clearhead.text.tokenizer import Tokenizer

COLUMNS = 4
MAX_TOKENS = 16
NEIGHBOURS = 6
"""Neighbours of each token."""


@dataclass(frozen=True)
class Neighbours:
    """A token and its nearest neighbours, with their cosines."""

    token: str
    near: Sequence[tuple[str, float]]


def has_neighbours(context: PictureContext) -> bool:
    return bool(_tokens(context)) and _embedding(context) is not None


def neighbours_view(context: PictureContext) -> Picture:
    explanation, embedding = context.explanation, _embedding(context)
    assert embedding is not None
    matrix, processor = embedding.weight.detach().float(), explanation.processor
    specials = processor.special_ids if isinstance(processor, Tokenizer) else ()
    found = []
    for token in {token.id: token for token in _tokens(context)}.values():
        near = nearest(matrix, matrix[token.id], NEIGHBOURS, {*specials, token.id})
        found.append(Neighbours(token.piece, [(explanation.piece(one), cosine) for one, cosine in near]))
    return neighbours_picture(context.subject, found)


def _side(context: PictureContext) -> str:
    """The input side."""
    return next(iter(context.explanation.sides))


def _tokens(context: PictureContext) -> list[Token]:
    return [token for token in context.explanation.sides[_side(context)] if not token.special]


def _embedding(context: PictureContext) -> Embedding | None:
    path = context.anatomy.embeddings.get(_side(context))
    module = None if path is None else context.explanation.model.get_submodule(path)
    return module if isinstance(module, Embedding) else None


def neighbours_picture(subject: Subject, tokens: Sequence[Neighbours]) -> Picture:
    """Bars of the cosines between each token and its nearest neighbours."""
    tokens = tokens[:MAX_TOKENS]
    columns = min(COLUMNS, len(tokens))
    rows = -(-len(tokens) // columns)
    count = max(len(one.near) for one in tokens)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for axes, one in zip(grid.flat, tokens, strict=False):
            cosines = [cosine for _, cosine in one.near]
            colours = [WEIGHT(0.25 + 0.5 * max(cosine, 0)) for cosine in cosines]
            axes.barh(range(len(cosines)), cosines, color=colours)
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

    caption = f"{subject} the nearest tokens by embedding; bars are cosines, and 1 is the same direction."
    texts = "; ".join(
        f"{one.token}: " + ", ".join(f"{name} {cosine:.2f}" for name, cosine in one.near[:3])
        for one in tokens
    )
    alt = f"Nearest tokens of the vocabulary by cosine of their embeddings. {texts}."
    size = (2.4 * max(columns, 2), rows * (0.24 * count + 0.45) + 0.9)
    return make_picture("Nearest tokens of the vocabulary, by embedding", draw, size, caption, alt)

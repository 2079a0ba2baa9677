"""From an explanation to its pictures: which there are, and what each is made from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import cast

from torch import nn

from clearhead.errors import SettingsError
from clearhead.inspection.explanation import Explanation, Token
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.arithmetic import Arithmetic, arithmetic_picture
from clearhead.inspection.pictures.atlas import atlas_picture
from clearhead.inspection.pictures.beam import Branch, beam_picture
from clearhead.inspection.pictures.cross import cross_picture
from clearhead.inspection.pictures.head import head_picture
from clearhead.inspection.pictures.lens import lens_picture
from clearhead.inspection.pictures.neighbours import Neighbours, neighbours_picture
from clearhead.inspection.pictures.picture import Picture
from clearhead.inspection.pictures.positions import positions_picture
from clearhead.inspection.pictures.residual import residual_picture
from clearhead.inspection.pictures.subject import Seen, Subject
from clearhead.inspection.vectors import compared_places, nearest
from clearhead.layers.attention import Attention
from clearhead.layers.block import Block
from clearhead.layers.positions import Relative
from clearhead.layers.scores import Scaled
from clearhead.models import GPT
from clearhead.options import check_types

NEAR = 6
"""How many neighbours a token is shown with."""
PLACES = 64
"""How many positions a picture of positions has, if the model has so many."""


@dataclass(frozen=True)
class Choice:
    """Of which attention, layer, head and query a picture is; what is left out is chosen by measurement."""

    attention: str | None = None
    """encoder, decoder or cross."""
    layer: int | None = None
    head: int | None = None
    query: int | None = None

    def __post_init__(self) -> None:
        check_types(self)


class Drawing:
    """Draws what an explanation holds."""

    def __init__(self, explanation: Explanation, choice: Choice):
        self.explanation, self.choice = explanation, choice
        self.summaries = Summaries(explanation)
        self.subject = Subject(_model_name(explanation), explanation.text, explanation.output)

    @property
    def kind(self) -> str:
        return self.choice.attention or self.summaries.kinds[-1]

    def seen(self, layer: int) -> Seen:
        """One layer of the chosen attention."""
        path = self.summaries.paths(self.kind)[layer]
        queries, keys = self.summaries.sides(self.kind)
        masked = self.explanation.trace.get(f"{path}.masked")
        hidden = None if masked is None else masked[0, 0] == float("-inf")
        roles = self.summaries.roles(self.kind)[layer]
        return Seen(
            path, self.summaries.tensor(f"{path}.weights"), _pieces(queries), _pieces(keys), hidden, roles
        )

    def atlas(self) -> Picture:
        return atlas_picture(
            self.subject, [self.seen(layer) for layer in range(len(self.summaries.paths(self.kind)))]
        )

    def head(self) -> Picture:
        layer, head = self._place()
        return head_picture(self.subject, self.seen(layer), head)

    def cross(self) -> Picture:
        ranked = self.summaries.aligners()
        layer, head = self._place("cross")
        aligner = next(one for one in ranked if (one.layer, one.head) == (layer, head))
        return cross_picture(self.subject, self.summaries.alignment(aligner))

    def arithmetic(self) -> Picture:
        layer, head = self._place()
        path = self.summaries.paths(self.kind)[layer]
        queries, keys = (_pieces(side) for side in self.summaries.sides(self.kind))
        query = len(queries) // 2 if self.choice.query is None else self.choice.query
        if not 0 <= query < len(queries):
            raise SettingsError(
                f"query: {query} is not from 0 to {len(queries) - 1}, the positions of this text"
            )
        asked, read, scores, masked, weights = (
            self.summaries.tensor(f"{path}.{shown}")[head]
            for shown in ("queries", "keys", "scores", "masked", "weights")
        )
        scale = _scale(self.explanation.model.get_submodule(path))
        products = None if scale is None else read @ asked[query]
        row = Arithmetic(
            path,
            head,
            queries[query],
            keys,
            scores[query],
            masked[query],
            weights[query],
            products,
            scale or 1.0,
        )
        return arithmetic_picture(self.subject, row)

    def beam(self) -> Picture:
        tree, pieces = self.explanation.tree, self.explanation.tokenizer.pieces
        if tree is None:
            raise SettingsError(
                "view: beam needs a search with a beam; explain without a target, and beam > 1"
            )
        branches = [
            Branch(
                node.parent,
                node.step,
                pieces([node.word])[0],
                node.log_prob,
                node.score,
                node.fate,
                node.best,
                node.why,
            )
            for node in tree.nodes
        ]
        return beam_picture(self.subject, branches)

    def residual(self) -> Picture:
        stack = "encoder" if self.kind == "encoder" else "decoder"
        return residual_picture(self.subject, stack, self.summaries.brought(stack))

    def lens(self) -> Picture:
        tokenizer, target = self.explanation.tokenizer, self.explanation.target
        comes = ["" if token.next is None else tokenizer.pieces([token.next])[0] for token in target]
        return lens_picture(
            self.subject,
            self.summaries.lens(1),
            _pieces(target),
            comes,
            lambda one: tokenizer.pieces([one])[0],
        )

    def positions(self) -> Picture:
        model = self.explanation.model
        embedding = model.embedding if isinstance(model, GPT) else model.target_embedding
        block = model.decoder.blocks[0]
        assert isinstance(block, Block)
        config, positions = model.config, min(PLACES, model.config.max_positions)
        parts = (config.position, embedding.position, block.attention.relative)
        table = compared_places(*parts, positions, config.width, model.readout_weight.device)
        return positions_picture(self.subject.model, table)

    def neighbours(self) -> Picture:
        model, tokenizer = self.explanation.model, self.explanation.tokenizer
        embedding = model.embedding if isinstance(model, GPT) else model.source_embedding
        matrix = embedding.weight.detach().float()
        tokens = [token for token in self.explanation.source or self.explanation.target if not token.special]
        signs = range(len(tokenizer.special_tokens))
        return neighbours_picture(
            self.subject,
            [
                Neighbours(
                    token.piece,
                    [
                        (tokenizer.pieces([near])[0], cosine)
                        for near, cosine in nearest(matrix, matrix[token.id], NEAR, {*signs, token.id})
                    ],
                )
                for token in {token.id: token for token in tokens}.values()
            ],
        )

    def _place(self, kind: str | None = None) -> tuple[int, int]:
        """The layer and head that were asked for; else the best aligner, or who has the clearest role."""
        kind = kind or self.kind
        weights = self.summaries.weights(kind)
        layer, head = self.choice.layer, self.choice.head
        for name, value, count in (("layer", layer, len(weights)), ("head", head, len(weights[0]))):
            if value is not None and not 0 <= value < count:
                raise SettingsError(
                    f"{name}: {value} is not from 0 to {count - 1}, as {kind} has {count} of them"
                )
        if kind == "cross":
            ranked = [(one.layer, one.head) for one in self.summaries.aligners()]
        else:
            roles = self.summaries.roles(kind)
            positions = [(one, other) for one, heads in enumerate(roles) for other in range(len(heads))]
            ranked = sorted(positions, key=lambda position: -roles[position[0]][position[1]].strength)
        return next((one, other) for one, other in ranked if layer in (None, one) and head in (None, other))


VIEWS: Mapping[str, Callable[[Drawing], Picture]] = MappingProxyType(
    {
        "cross": Drawing.cross,
        "atlas": Drawing.atlas,
        "head": Drawing.head,
        "row": Drawing.arithmetic,
        "residual": Drawing.residual,
        "lens": Drawing.lens,
        "beam": Drawing.beam,
        "positions": Drawing.positions,
        "neighbours": Drawing.neighbours,
    }
)
"""The pictures by name."""


USES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cross": ("layer", "head"),
        "atlas": ("attention",),
        "head": ("attention", "layer", "head"),
        "row": ("attention", "layer", "head", "query"),
        "residual": ("attention",),
    }
)
"""What can be chosen of which picture."""


def views(explanation: Explanation) -> list[str]:
    """The names of the pictures that an explanation can be drawn as, the most telling first."""
    missing = set()
    if not all(any(not token.special for token in side) for side in (explanation.source, explanation.target)):
        missing.add("cross")
    if explanation.model.config.position == "none":
        missing.add("positions")
    if explanation.tree is None:
        missing.add("beam")
    if all(token.special for token in explanation.source or explanation.target):
        missing.add("neighbours")
    return [name for name in VIEWS if name not in missing]


def draw(explanation: Explanation, view: str | None = None, choice: Choice | None = None) -> Picture:
    """One picture of an explanation; the most telling, if none is named."""
    there = views(explanation)
    view = view or there[0]
    if view not in there:
        raise SettingsError(f"view: {view!r} is not one of {', '.join(there)}")
    choice = choice or Choice()
    for name, value in asdict(choice).items():
        if value is not None and name not in USES.get(view, ()):
            others = ", ".join(one for one in there if name in USES.get(one, ()))
            raise SettingsError(f"{name}: {value} is not for the view {view}; it goes with {others}")
    return VIEWS[view](Drawing(explanation, choice))


def fitting(view: str, choice: Choice) -> Choice:
    """Of what was chosen, that which the view uses."""
    return Choice(**{name: value for name, value in asdict(choice).items() if name in USES.get(view, ())})


def _scale(attention: nn.Module) -> float | None:
    """By which products of queries and keys are multiplied; None where scores are something else."""
    if isinstance(attention, Attention) and isinstance(attention.score, Scaled):
        return attention.score.scale if cast(Relative, attention.relative).bias(1, 1) is None else None
    return None


def _pieces(tokens: Sequence[Token]) -> list[str]:
    return [token.piece for token in tokens]


def _model_name(explanation: Explanation) -> str:
    """Its name, or what it is."""
    if explanation.name:
        return explanation.name
    config = explanation.model.config
    return f"{config.kind} with {config.attention.heads} heads, width {config.width}"

"""What a picture is drawn from: an explanation, a selection in it, and an attention with its tokens."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.explanation import Explanation
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.summaries import LABELS, Role
from clearhead.options import Options


@dataclass(frozen=True)
class Selection(Options):
    """The attention, layer, head and query of a picture; None selects by measurement."""

    attention: str | None = None
    """A name from the model's anatomy: encoder, decoder, cross."""
    layer: int | None = None
    head: int | None = None
    query: int | None = None


@dataclass(frozen=True)
class Subject:
    """The model and text of a picture."""

    model: str
    text: str
    output: str = ""

    def __str__(self) -> str:
        output = f" → “{_truncated(self.output)}”" if self.output else ""
        return f"Model {self.model}, “{_truncated(self.text)}”{output}:"


@dataclass(frozen=True)
class AttentionView:
    """The weights of one attention with the tokens of its queries and keys."""

    name: str
    """The path of the attention: `decoder.blocks.0.cross_attention`."""
    weights: Float[Tensor, "heads queries keys"]
    queries: Sequence[str]
    keys: Sequence[str]
    masked: Bool[Tensor, "queries keys"] | None = None
    """The pairs that the mask hides."""
    roles: Sequence[Role] = ()
    layer: int = 0

    @property
    def heads(self) -> int:
        return len(self.weights)

    @functools.cached_property
    def hidden(self) -> dict[str, Bool[Tensor, "queries keys"]]:
        """The masked pairs by reason: the key comes later, or it is padding or outside the window."""
        if self.masked is None:
            return {}
        queries, keys = self.masked.shape
        future = self.masked & torch.ones_like(self.masked).triu(1 + keys - queries)
        pairs = {"comes later": future, "padding or outside the window": self.masked & ~future}
        return {reason: cells for reason, cells in pairs.items() if bool(cells.any())}

    def label(self, head: int) -> str:
        """A head's number, and its role if it has one."""
        named = self.roles and self.roles[head].name != "mixed"
        return f"head {head} · {self.roles[head]}" if named else f"head {head}"

    def strongest(self, head: int, limit: int = 8) -> str:
        """The strongest key of each of a head's first queries, as text."""
        best = self.weights[head].max(-1)
        pairs = zip(self.queries, best.indices.tolist(), best.values.tolist(), strict=True)
        texts = [f"{query} to {self.keys[key]} ({weight:.2f})" for query, key, weight in pairs]
        rest = f", and {len(texts) - limit} more" if len(texts) > limit else ""
        return ", ".join(texts[:limit]) + rest

    def role_counts(self) -> str:
        """The number of heads with each role, as text."""
        names = [LABELS[role.name] for role in self.roles]
        return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


class PictureContext:
    """An explanation with its summaries and a selection."""

    def __init__(self, explanation: Explanation, selection: Selection):
        self.explanation, self.selection = explanation, selection
        self.summaries = Summaries(explanation)
        self.anatomy = self.summaries.anatomy
        self.subject = Subject(_model_name(explanation), explanation.text, explanation.output)

    @property
    def kind(self) -> str:
        """The selected attention; the last one of the model by default."""
        return self.selection.attention or self.summaries.kinds[-1]

    def attention(self, layer: int) -> AttentionView:
        """One layer of the selected attention."""
        path = self.summaries.paths(self.kind)[layer]
        queries, keys = self.labels()
        masked = self.explanation.trace.get(f"{path}.masked")
        masked = None if masked is None else masked[0, 0] == float("-inf")
        roles = self.summaries.roles(self.kind)[layer]
        weights = self.summaries.tensor(f"{path}.weights")
        return AttentionView(path, weights, queries, keys, masked, roles, layer)

    def labels(self) -> tuple[list[str], list[str]]:
        """The tokens of the selected attention's queries and keys."""
        queries, keys = self.summaries.tokens(self.kind)
        return [token.piece for token in queries], [token.piece for token in keys]

    def layer_and_head(self, kind: str | None = None) -> tuple[int, int]:
        """The selected layer and head; by default the best aligner, or the head with the strongest role."""
        kind = kind or self.kind
        weights = self.summaries.weights(kind)
        layer, head = self.selection.layer, self.selection.head
        for name, value, count in (("layer", layer, len(weights)), ("head", head, len(weights[0]))):
            if value is not None and not 0 <= value < count:
                raise SettingsError(f"{name}: {value} is out of range; {kind} has {name}s 0 to {count - 1}")
        if self.summaries.part(kind).crosses:
            ranked = [(one.layer, one.head) for one in self.summaries.aligners]
        else:
            roles = self.summaries.roles(kind)
            heads = [(one, other) for one in range(len(roles)) for other in range(len(roles[one]))]
            ranked = sorted(heads, key=lambda at: -roles[at[0]][at[1]].strength)
        return next((one, other) for one, other in ranked if layer in (None, one) and head in (None, other))


def _model_name(explanation: Explanation) -> str:
    """The model's name, or a description of it."""
    if explanation.name:
        return explanation.name
    config = getattr(explanation.model, "config", None)
    attention, width = getattr(config, "attention", None), getattr(config, "width", None)
    size = f" with {attention.heads} heads, width {width}" if attention and width else ""
    return f"{explanation.kind}{size}"


def _truncated(text: str, max_length: int = 120) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_length else text[: max_length - 1] + "…"

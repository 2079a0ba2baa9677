"""What a picture is drawn from: an explanation, and the selected attention, layer, head and query."""

from dataclasses import dataclass

from clearhead.errors import SettingsError
from clearhead.inspection.explanation import Explanation
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.pictures.subject import AttentionView, Subject
from clearhead.options import Options


@dataclass(frozen=True)
class Selection(Options):
    """The attention, layer, head and query of a picture; None selects by measurement."""

    attention: str | None = None
    """A name from the model's anatomy: encoder, decoder, cross."""
    layer: int | None = None
    head: int | None = None
    query: int | None = None


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
            ranked = [(one.layer, one.head) for one in self.summaries.aligners()]
        else:
            roles = self.summaries.roles(kind)
            heads = [
                (one, other) for one, layer_roles in enumerate(roles) for other in range(len(layer_roles))
            ]
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

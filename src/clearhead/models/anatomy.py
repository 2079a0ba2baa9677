"""What a model declares about its own parts; inspection, pictures and the explorer read only this."""

from collections.abc import Mapping
from dataclasses import dataclass

from clearhead.errors import ModelError

RESIDUALS = {
    "attention": "attention_residual",
    "cross_attention": "cross_residual",
    "feedforward": "feedforward_residual",
}
"""The residual connection around each sublayer of a block."""


@dataclass(frozen=True)
class StackPart:
    """A stack of blocks that one side of the input runs through."""

    path: str
    """The module whose `blocks` are the layers; "" if that is the model itself."""
    side: str
    """The input it reads: "source", "target", "text", "image"."""
    layers: int
    sublayers: tuple[str, ...]
    """The modules of a block that add to the residual stream, in order."""

    def stream(self, layer: int | str, sublayer: str) -> str:
        """The name of the residual stream after a sublayer."""
        return f"{_block(self.path, layer)}.{RESIDUALS[sublayer]}.stream"

    def added(self, layer: int | str, sublayer: str) -> str:
        """The name of what a sublayer adds to the residual stream."""
        return f"{_block(self.path, layer)}.{sublayer}.added"


@dataclass(frozen=True)
class AttentionPart:
    """One kind of attention, present in every layer of its stack."""

    name: str
    """How a user selects it: "encoder", "decoder", "cross"."""
    stack: str | None
    """The path of the stack; None for a single attention outside any stack."""
    sublayer: str
    """The module in each block; without a stack, the path of the attention."""
    queries: str
    """The side the queries come from."""
    keys: str
    """The side the keys and values come from."""
    causal: bool

    @property
    def crosses(self) -> bool:
        """Whether queries and keys come from different sides."""
        return self.queries != self.keys

    def path(self, layer: int | str) -> str:
        """The attention module of a layer; "*" stands for all of them."""
        return self.sublayer if self.stack is None else f"{_block(self.stack, layer)}.{self.sublayer}"


@dataclass(frozen=True)
class RecurrentPart:
    """A stack of recurrent layers that one side of the input runs through, token after token."""

    path: str
    """The module whose `layers` are the layers, each with a `width`."""
    side: str
    layers: int
    cell: str
    """"rnn", "gru" or "lstm"."""
    directions: int = 1
    """2 if a second set of cells reads the input backwards."""

    def site(self, layer: int | str, tensor: str) -> str:
        """The name of a gate or state of a layer."""
        return f"{self.path}.layers.{layer}.{tensor}".removeprefix(".")


@dataclass(frozen=True)
class Anatomy:
    """The parts of a model by path, with sides in the order in which the input runs through them."""

    embeddings: Mapping[str, str]
    """The path of each side's embedding."""
    stacks: tuple[StackPart, ...]
    attentions: tuple[AttentionPart, ...]
    readout: str | None = "readout"
    """The method that turns states of the last stack into logits; None where there is no vocabulary."""
    recurrences: tuple[RecurrentPart, ...] = ()

    @property
    def output_side(self) -> str:
        """The side whose positions the logits belong to; "text" for a model that names no part."""
        parts = (*self.stacks, *self.recurrences)
        return parts[-1].side if parts else list(self.embeddings or ["text"])[-1]

    def attention(self, name: str) -> AttentionPart:
        """An attention by name."""
        return next(part for part in self.attentions if part.name == name)

    def stack(self, path: str) -> StackPart:
        """A stack by path."""
        return next(part for part in self.stacks if part.path == path)

    def layers(self, attention: AttentionPart) -> list[str]:
        """The paths of an attention, one per layer."""
        count = 1 if attention.stack is None else self.stack(attention.stack).layers
        return [attention.path(layer) for layer in range(count)]


def anatomy_of(model: object) -> Anatomy:
    """The anatomy that a model declares."""
    declared = getattr(model, "anatomy", None)
    if not callable(declared):
        raise ModelError(
            f"{type(model).__name__}: declares no anatomy; add a method `anatomy()` that returns an Anatomy"
        )
    found = declared()
    assert isinstance(found, Anatomy)
    return found


def _block(stack: str, layer: int | str) -> str:
    return f"{stack}.blocks.{layer}".removeprefix(".")

"""What a model says of its own parts: inspection, pictures and the explorer read only this."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StackPart:
    """A stack of blocks that one side of the input runs through."""

    path: str
    """Of the module, whose `blocks` are the layers."""
    side: str
    """Which input it reads: "source", "target", "text", "image"."""
    layers: int
    sublayers: tuple[str, ...]
    """The modules of a block that add to the residual stream, in their order."""


@dataclass(frozen=True)
class AttentionPart:
    """One kind of attention, present in every layer of its stack."""

    name: str
    """As it is asked for: "encoder", "decoder", "cross"."""
    stack: str
    """The path of the stack."""
    sublayer: str
    """The module in each block."""
    queries: str
    """The side that asks."""
    keys: str
    """The side that answers."""
    causal: bool

    @property
    def crosses(self) -> bool:
        """Whether queries and keys are of two sides."""
        return self.queries != self.keys

    def path(self, layer: int | str) -> str:
        """The module of a layer; "*" stands for all of them."""
        return f"{self.stack}.blocks.{layer}.{self.sublayer}"


@dataclass(frozen=True)
class Anatomy:
    """The parts of a model by their paths, sides in the order in which the input runs through them."""

    embeddings: Mapping[str, str]
    """The path of each side's embedding."""
    stacks: tuple[StackPart, ...]
    attentions: tuple[AttentionPart, ...]
    readout: str | None = "readout"
    """The method that turns states of the last stack into logits; None where there is no vocabulary."""

    @property
    def output_side(self) -> str:
        """The side that the readout speaks of."""
        return self.stacks[-1].side

    def attention(self, name: str) -> AttentionPart:
        """A kind of attention by its name."""
        return next(part for part in self.attentions if part.name == name)

    def stack(self, path: str) -> StackPart:
        """A stack by its path."""
        return next(part for part in self.stacks if part.path == path)

    def layers(self, attention: AttentionPart) -> list[str]:
        """The paths of an attention, a layer each."""
        return [attention.path(layer) for layer in range(self.stack(attention.stack).layers)]

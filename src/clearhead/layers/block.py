"""The one block, the stack of them, and the memory that decoding keeps for each."""

from dataclasses import dataclass
from typing import cast

from jaxtyping import Float, Int
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.attention import Attention, AttentionConfig, KeyValues
from clearhead.layers.feedforward import ActivationKind, make_feedforward
from clearhead.layers.mask import Mask
from clearhead.layers.norm import NormKind, NormPlace, make_norm, make_residual
from clearhead.layers.positions import Places, PositionKind, make_relative

Stream = Float[Tensor, "batch places width"]
Encoded = Float[Tensor, "batch source width"]


class BlockConfig(Settings):
    """What all blocks of a model share."""

    width: PositiveInt = 512
    hidden: PositiveInt = 2048
    attention: AttentionConfig = AttentionConfig()
    position: PositionKind = "sinusoidal"
    activation: ActivationKind = "relu"
    norm: NormKind = "layer"
    norm_place: NormPlace = "post"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    longest: PositiveInt = 512
    """The most tokens a text may have."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "BlockConfig":
        if self.width % self.attention.heads:
            raise ValueError(f"width {self.width} is not divisible by attention.heads {self.attention.heads}")
        if self.position == "rotary" and self.width // self.attention.heads % 2:
            raise ValueError(
                f"rotary positions need an even size of head, not {self.width // self.attention.heads}"
            )
        return self


@dataclass(frozen=True)
class Source:
    """Encoded states as each block of a decoder has read them, and which of them are words."""

    read: list[KeyValues]
    mask: Mask

    def for_block(self, number: int) -> KeyValues:
        return self.read[number]


@dataclass(frozen=True)
class Unread:
    """Encoded states that each block reads when its turn comes, and which of them are words."""

    states: Encoded
    mask: Mask

    def for_block(self, number: int) -> Encoded:
        return self.states


class Memory:
    """One block's cache: the keys and values of the words so far, in room that doubles."""

    def __init__(self):
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, new: KeyValues) -> KeyValues:
        """All keys and values so far, the new ones last."""
        start, end = self.length, self.length + new.keys.shape[2]
        self._keys = _written(self._keys, new.keys, start)
        self._values = _written(self._values, new.values, start)
        self.length = end
        return KeyValues(self._keys[:, :, :end], self._values[:, :, :end])

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)
            self._values = self._values.index_select(0, rows)


class Block(nn.Module):
    """Self-attention, cross-attention where there is a source, feed-forward; each with residual and norm."""

    def __init__(self, config: BlockConfig, cross: bool):
        super().__init__()
        width, heads, longest = config.width, config.attention.heads, config.longest
        relative = make_relative(config.position, heads, width // heads, longest)

        def residual() -> nn.Module:
            return make_residual(config.norm_place, config.norm, width, config.dropout)

        self.attention = Attention(width, config.attention, longest, relative)
        self.attention_residual = residual()
        if cross:
            self.cross_attention = Attention(width, config.attention, longest)
            self.cross_residual = residual()
        self.feedforward = make_feedforward(config.activation, width, config.hidden)
        self.feedforward_residual = residual()

    def read(self, states: Encoded) -> KeyValues:
        """What the cross-attention reads in encoded states."""
        return self.cross_attention.read(states)

    def forward(
        self,
        x: Stream,
        mask: Mask,
        places: Places | None = None,
        source: KeyValues | Encoded | None = None,
        source_mask: Mask | None = None,
        memory: Memory | None = None,
    ) -> Stream:
        def look(y: Stream) -> Stream:
            queries, own = self.attention.both(y, places)
            return self.attention(queries, memory.extend(own) if memory else own, mask)

        def consult(y: Stream) -> Stream:
            read = self.cross_attention.read(source) if isinstance(source, Tensor) else source
            return self.cross_attention(self.cross_attention.ask(y), read, source_mask)

        x = self.attention_residual(x, look)
        if source is not None:
            x = self.cross_residual(x, consult)
        return self.feedforward_residual(x, self.feedforward)


class Stack(nn.Module):
    """Blocks one above the other; with pre-norm, the stream is normalised once at the end."""

    def __init__(self, config: BlockConfig, layers: int, cross: bool = False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config, cross) for _ in range(layers))
        last = config.norm_place == "pre"
        self.norm = make_norm(config.norm, config.width) if last else nn.Identity()

    def read(self, states: Encoded, mask: Mask) -> Source:
        """What each block's cross-attention reads in encoded states."""
        return Source([cast(Block, block).read(states) for block in self.blocks], mask)

    def forward(
        self,
        x: Stream,
        mask: Mask,
        places: Places | None = None,
        source: Source | Unread | None = None,
        memories: list[Memory] | None = None,
    ) -> Stream:
        """The last states of words that stand at these places; at 0, 1, 2 … if none are given."""
        for number, block in enumerate(self.blocks):
            given, source_mask = (source.for_block(number), source.mask) if source else (None, None)
            x = block(x, mask, places, given, source_mask, memories[number] if memories else None)
        return self.norm(x)


def _written(room: Tensor | None, new: Tensor, start: int) -> Tensor:
    """`room` with the new places written from `start` on, grown when they do not fit."""
    rows, heads, places, size = new.shape
    end = start + places
    if room is None or room.shape[2] < end:
        larger = new.new_empty(rows, heads, max(16, 2 * end), size)
        if room is not None:
            larger[:, :, :start] = room[:, :, :start]
        room = larger
    room[:, :, start:end] = new
    return room

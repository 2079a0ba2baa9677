"""The one block, and the stack of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.attention import Attention, AttentionConfig, KeyValues
from clearhead.layers.cache import Cache
from clearhead.layers.feedforward import ActivationKind, make_feedforward
from clearhead.layers.mask import Mask, Window
from clearhead.layers.norm import NormKind, NormPosition, make_norm, make_residual
from clearhead.layers.positions import PositionKind, Positions, Relative, make_relative

NARROW = 0.02
"""The deviation with which the matrices of GPT-2 begin."""
Stream = Float[Tensor, "batch positions width"]
Encoded = Float[Tensor, "batch source width"]


class BlockConfig(Settings):
    """What all blocks of a model share."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}

    width: PositiveInt = 512
    ffn_width: PositiveInt = 2048
    attention: AttentionConfig = AttentionConfig()
    window: PositiveInt | None = None
    """How far a token sees to either side, itself counted. Left out: all that its mask allows."""
    position: PositionKind = "sinusoidal"
    rotary_base: float = Field(default=10000.0, gt=1)
    """The larger, the slower the slowest rotary positions turn."""
    activation: ActivationKind = "relu"
    norm: NormKind = "layer"
    norm_position: NormPosition = "post"
    norm_epsilon: float | None = Field(default=None, gt=0)
    """Added to what a norm divides by. Left out: 1e-5 for layer, 1e-6 for rms."""
    bias: bool = True
    """Whether products and layer norms add something of their own."""
    init: Literal["xavier", "gpt2", "zero"] = "xavier"
    """How matrices begin. gpt2: narrowly, outputs by depth (Radford et al. 2019). zero: as xavier, but what
    blocks add to the stream begins as nothing (Zhang et al. 2019)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    max_length: PositiveInt = 512
    """The most tokens a text may have."""

    @property
    def head_size(self) -> int:
        return self.attention.size or self.width // self.attention.heads

    @property
    def packs(self) -> bool:
        """Whether texts may share a row: its positions and scores must not count the whole row."""
        return self.position != "fraction" and self.attention.score != "location"

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, values: Any) -> Any:
        """`preset = "base"` stands for its settings; settings beside it take precedence."""
        if not isinstance(values, dict) or "preset" not in values:
            return values
        values = dict(values)
        name = values.pop("preset")
        if name not in cls.PRESETS:
            raise ValueError(f"preset {name!r} is not one of {', '.join(cls.PRESETS)}")
        chosen = cls.PRESETS[name]
        merged = {**chosen, **values}
        if isinstance(values.get("attention"), dict):
            merged["attention"] = {**chosen.get("attention", {}), **values["attention"]}
        return merged

    @model_validator(mode="after")
    def _heads_fit(self) -> "BlockConfig":
        heads, kv_heads = self.attention.heads, self.attention.kv_heads
        if self.attention.size is None and self.width % heads:
            raise ValueError(f"width {self.width} is not divisible by attention.heads {heads}")
        if kv_heads and heads % kv_heads:
            raise ValueError(f"attention.heads {heads} is not divisible by attention.kv_heads {kv_heads}")
        if self.position == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions need an even size of head, not {self.head_size}")
        return self


@dataclass(frozen=True)
class Source:
    """Encoded states as each block of a decoder has read them, and which of them are tokens."""

    read: list[KeyValues]
    mask: Mask

    def for_block(self, number: int) -> KeyValues:
        return self.read[number]


@dataclass(frozen=True)
class EncodedSource:
    """Encoded states that each block reads when its turn comes, and which of them are tokens."""

    states: Encoded
    mask: Mask

    def for_block(self, number: int) -> Encoded:
        return self.states


class Block(nn.Module):
    """Self-attention, cross-attention where there is a source, feed-forward; each with residual and norm."""

    def __init__(self, config: BlockConfig, cross: bool, relative: Relative):
        super().__init__()
        width, max_length, bias = config.width, config.max_length, config.bias

        def residual() -> nn.Module:
            return make_residual(config.norm_position, norm_of(config), config.dropout)

        self.attention = Attention(width, config.attention, max_length, relative, bias)
        self.attention_residual = residual()
        if cross:
            self.cross_attention = Attention(width, config.attention, max_length, bias=bias)
            self.cross_residual = residual()
        self.feedforward = make_feedforward(config.activation, width, config.ffn_width, bias)
        self.feedforward_residual = residual()

    def read(self, states: Encoded) -> KeyValues:
        """What the cross-attention reads in encoded states."""
        return self.cross_attention.project_kv(states)

    def forward(
        self,
        x: Stream,
        mask: Mask,
        positions: Positions | None = None,
        source: KeyValues | Encoded | None = None,
        source_mask: Mask | None = None,
        memory: Cache | None = None,
    ) -> Stream:
        def look(y: Stream) -> Stream:
            queries, own = self.attention.project_qkv(y, positions)
            return self.attention(queries, memory.extend(own) if memory else own, mask)

        def consult(y: Stream) -> Stream:
            read = self.cross_attention.project_kv(source) if isinstance(source, Tensor) else source
            return self.cross_attention(self.cross_attention.project_q(y), read, source_mask)

        x = self.attention_residual(x, look)
        if source is not None:
            x = self.cross_residual(x, consult)
        return self.feedforward_residual(x, self.feedforward)


class Stack(nn.Module):
    """Blocks one above the other; with pre-norm, the stream is normalised once at the end."""

    def __init__(self, config: BlockConfig, layers: int, cross: bool = False):
        super().__init__()
        # One for all blocks: its tables grow with the longest text, and hold nothing that is learned.
        relative = make_relative(
            config.position, config.attention.heads, config.head_size, config.max_length, config.rotary_base
        )
        self.blocks = nn.ModuleList(Block(config, cross, relative) for _ in range(layers))
        self.norm = norm_of(config) if config.norm_position == "pre" else nn.Identity()
        self.window = Window(config.window - 1) if config.window else None
        begin(self, config.init)

    def read(self, states: Encoded, mask: Mask) -> Source:
        """What each block's cross-attention reads in encoded states."""
        return Source([cast(Block, block).read(states) for block in self.blocks], mask)

    def forward(
        self,
        x: Stream,
        mask: Mask,
        positions: Positions | None = None,
        source: Source | EncodedSource | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Stream:
        """The last states of tokens that stand at these positions; at 0, 1, 2 … if none are given."""
        mask = mask & self.window if self.window else mask
        for number, block in enumerate(self.blocks):
            given, source_mask = (source.for_block(number), source.mask) if source else (None, None)
            x = block(x, mask, positions, given, source_mask, caches[number] if caches else None)
        return self.end(x)

    def end(self, x: Stream) -> Stream:
        """What leaves the stack."""
        return self.norm(x)


def norm_of(config: BlockConfig) -> nn.Module:
    return make_norm(config.norm, config.width, config.bias, config.norm_epsilon)


def begin(stack: Stack, kind: Literal["xavier", "gpt2", "zero"]) -> None:
    """Gives the matrices of fresh blocks, which begin as xavier has it, the values they begin with."""
    linears = {name: module for name, module in stack.named_modules() if isinstance(module, nn.Linear)}
    outputs = [linear for name, linear in linears.items() if name.endswith(("attention.output", ".outer"))]
    if kind == "gpt2":
        for linear in linears.values():
            nn.init.normal_(linear.weight, std=NARROW)
        for output in outputs:
            nn.init.normal_(output.weight, std=NARROW * len(outputs) ** -0.5)
    if kind == "zero":
        for output in outputs:
            nn.init.zeros_(output.weight)

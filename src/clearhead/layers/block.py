"""The Transformer block, and a stack of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from clearhead.config import PresetSettings
from clearhead.layers.attention import Attention, AttentionConfig, KeyValues
from clearhead.layers.cache import Cache
from clearhead.layers.feedforward import ActivationKind, make_feedforward
from clearhead.layers.mask import Mask, Window
from clearhead.layers.norm import NormKind, NormPosition, make_norm, make_residual
from clearhead.layers.positions import POSITIONS, PositionKind, Positions, Relative, make_relative

GPT2_STD = 0.02
"""Standard deviation of GPT-2's initial weights."""
Stream = Float[Tensor, "batch positions width"]
Encoded = Float[Tensor, "batch source width"]
Init = Literal["xavier", "gpt2", "zero"]


class BlockConfig(PresetSettings):
    """The settings that all blocks of a model share; the base of every Transformer's settings."""

    width: PositiveInt = 512
    ffn_width: PositiveInt = 2048
    attention: AttentionConfig = AttentionConfig()
    window: PositiveInt | None = None
    """How far a token attends to either side, counting itself. Default: unlimited."""
    position: PositionKind = "sinusoidal"
    rotary_base: float = Field(default=10000.0, gt=1)
    """A larger base makes the slowest rotary frequencies slower."""
    activation: ActivationKind = "relu"
    norm: NormKind = "layer"
    norm_position: NormPosition = "post"
    norm_epsilon: float | None = Field(default=None, gt=0)
    """Added to the variance in a norm. Default: 1e-5 for layer, 1e-6 for rms."""
    bias: bool = True
    """Whether linear layers and layer norms have a bias."""
    init: Init = "xavier"
    """How weights are initialised. gpt2: normal, with outputs scaled by depth (Radford et al. 2019). zero: as
    xavier, but the outputs of sublayers start at zero (Zhang et al. 2019)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @property
    def max_positions(self) -> int:
        """The number of positions that embeddings and attention are built for."""
        raise NotImplementedError(f"{type(self).__name__} must define max_positions")

    @property
    def head_size(self) -> int:
        return self.attention.head_size or self.width // self.attention.heads

    @property
    def packs(self) -> bool:
        """Whether texts can share a row: no position or score may depend on the whole row."""
        return self.position != "fraction" and self.attention.score != "location"

    def tensor_sizes(self, vocabulary: int) -> dict[str, int]:
        """The number of values in each of the largest tensors, by what it holds.

        Lets a loader refuse settings that do not match a file before it allocates memory.
        """
        heads, size = self.attention.heads, self.head_size
        # Tables of absolute positions have the full width, those of rotary positions the head's.
        absolute = self.width if self.position in POSITIONS else 0
        per_position = {"rotary": size, "none": 0}.get(self.position, absolute)
        return {
            f"{vocabulary:,} tokens of width {self.width:,}": vocabulary * self.width,
            f"width {self.width:,} and ffn_width {self.ffn_width:,}": self.width * self.ffn_width,
            f"{heads:,} heads of size {size:,}": self.width * heads * size,
            f"{self.max_positions:,} positions": self.max_positions * per_position,
        }

    @model_validator(mode="after")
    def _check_heads(self) -> "BlockConfig":
        self.attention.check_width(self.width)
        if self.position == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions need an even head size, not {self.head_size}")
        return self


@dataclass(frozen=True)
class Source:
    """What the decoder attends to: for each block, the encoded states or their projected keys and values."""

    blocks: Sequence[Any]
    mask: Mask
    shared: bool = False
    """Whether several consecutive rows may attend to one row of the source; a tap sees one source per row."""


class Block(nn.Module):
    """Self-attention, optional cross-attention and a feed-forward network, each with residual and norm."""

    def __init__(self, config: BlockConfig, cross: bool = False, relative: Relative | None = None):
        super().__init__()
        width, max_positions, bias = config.width, config.max_positions, config.bias

        def residual() -> nn.Module:
            return make_residual(config.norm_position, norm_of(config), config.dropout)

        self.attention = Attention(width, config.attention, max_positions, relative, bias)
        self.attention_residual = residual()
        if cross:
            self.cross_attention = Attention(width, config.attention, max_positions, bias=bias)
            self.cross_residual = residual()
        self.feedforward = make_feedforward(config.activation, width, config.ffn_width, bias)
        self.feedforward_residual = residual()

    def forward(
        self,
        x: Stream,
        mask: Mask,
        positions: Positions | None = None,
        source: KeyValues | Encoded | None = None,
        source_mask: Mask | None = None,
        cache: Cache | None = None,
    ) -> Stream:
        def attend(y: Stream) -> Stream:
            queries, kv = self.attention.project_qkv(y, positions)
            return self.attention(queries, cache.extend(kv) if cache else kv, mask)

        def attend_to_source(y: Stream) -> Stream:
            if isinstance(source, Tensor):
                kv = self.cross_attention.project_kv(source)
            else:
                kv = cast(KeyValues, source)
            rows, sources = y.shape[0], kv.keys.shape[0] if kv.lookup is None else y.shape[0]
            if rows != sources:
                # The tokens of several hypotheses become several queries to the source that they share.
                y = y.reshape(sources, rows // sources, -1)
            gathered = self.cross_attention(self.cross_attention.project_q(y), kv, source_mask)
            return gathered if rows == sources else gathered.reshape(rows, 1, -1)

        x = self.attention_residual(x, attend)
        if source is not None:
            x = self.cross_residual(x, attend_to_source)
        return self.feedforward_residual(x, self.feedforward)


class Stack(nn.Module):
    """Blocks one after the other; with pre-norm, the stream is normalised once at the end.

    `mask` limits every self-attention of the stack, besides the mask of each call; by default it is the
    window of the settings. `relative` replaces the relative positions of the settings.
    """

    def __init__(
        self,
        config: BlockConfig,
        layers: int,
        cross: bool = False,
        mask: Mask | None = None,
        relative: Relative | None = None,
    ):
        super().__init__()
        if relative is None:
            heads, size, base = config.attention.heads, config.head_size, config.rotary_base
            relative = make_relative(config.position, heads, size, config.max_positions, base)
        # All blocks share it, because its tables can be large.
        self.blocks = nn.ModuleList(Block(config, cross, relative) for _ in range(layers))
        self.norm = norm_of(config) if config.norm_position == "pre" else nn.Identity()
        self.mask = Window(config.window - 1) if mask is None and config.window else mask
        init_weights(self, config.init)

    def project_source(self, states: Encoded, mask: Mask) -> Source:
        """The keys and values of encoded states, projected once before decoding."""
        attentions = [cast(Block, block).cross_attention for block in self.blocks]
        blocks = [one.prepare(one.project_kv(states)) for one in attentions]
        return Source(blocks, mask, shared=not any(one.tap for one in attentions))

    def forward(
        self,
        x: Stream,
        mask: Mask,
        positions: Positions | None = None,
        source: Source | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Stream:
        """The last states of tokens at these positions; at 0, 1, 2 … by default."""
        mask = mask if self.mask is None else mask & self.mask
        for number, block in enumerate(self.blocks):
            given, source_mask = (source.blocks[number], source.mask) if source else (None, None)
            x = block(x, mask, positions, given, source_mask, caches[number] if caches else None)
        return self.final_norm(x)

    def final_norm(self, x: Stream) -> Stream:
        return self.norm(x)


def norm_of(config: BlockConfig) -> nn.Module:
    return make_norm(config.norm, config.width, config.bias, config.norm_epsilon)


def init_weights(stack: Stack, init: Init) -> None:
    """Initialises the matrices of a stack; layers come with xavier."""
    linears = {name: module for name, module in stack.named_modules() if isinstance(module, nn.Linear)}
    outputs = [linear for name, linear in linears.items() if name.endswith(("attention.output", ".outer"))]
    if init == "gpt2":
        for linear in linears.values():
            nn.init.normal_(linear.weight, std=GPT2_STD)
        for output in outputs:
            nn.init.normal_(output.weight, std=GPT2_STD * len(outputs) ** -0.5)
    if init == "zero":
        for output in outputs:
            nn.init.zeros_(output.weight)

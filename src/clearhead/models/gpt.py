"""The decoder-only Transformer that continues a text (Radford et al. 2019)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.layers.attention import AttentionConfig, Tap
from clearhead.layers.block import NARROW, BlockConfig, Stack
from clearhead.layers.cache import Cache, KVCache
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.layout import Plain, TextLayout
from clearhead.layers.mask import Causal, LeftPadding, Mask
from clearhead.layers.norm import NormPosition
from clearhead.layers.positions import Learned, PositionKind, check_length
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.text.tokenizer import Tokenizer

Tokens = Int[Tensor, "batch positions"]

# What newer models have in common: rotary positions, RMSNorm, norms of queries and keys, squared ReLU,
# no biases, and blocks that begin as nothing.
MODERN: dict[str, Any] = {
    "position": "rotary",
    "norm": "rms",
    "activation": "squared_relu",
    "bias": False,
    "init": "zero",
}
PRESETS: dict[str, dict[str, Any]] = {
    "gpt2": {},  # Radford et al. 2019, the smallest: the defaults
    "gpt2-medium": {"width": 1024, "ffn_width": 4096, "layers": 24, "attention": {"heads": 16}},
    "gpt2-large": {"width": 1280, "ffn_width": 5120, "layers": 36, "attention": {"heads": 20}},
    "gpt2-xl": {"width": 1600, "ffn_width": 6400, "layers": 48, "attention": {"heads": 25}},
    "modern": {**MODERN, "attention": {"heads": 12, "kv_heads": 4, "qk_norm": "rms"}, "window": 512},
    "shakespeare": {  # the size of nanoGPT's, for characters
        **MODERN,
        "width": 384,
        "ffn_width": 1536,
        "layers": 6,
        "attention": {"heads": 6, "qk_norm": "rms"},
        "dropout": 0.2,
        "max_length": 256,
    },
    "shakespeare-small": {
        **MODERN,
        "width": 128,
        "ffn_width": 512,
        "layers": 4,
        "attention": {"heads": 4, "qk_norm": "rms"},
        "max_length": 64,
    },
}

# A long prompt is read in parts: the scores of a part and all before it are what memory has to hold.
PREFILL = 512


class GPTConfig(BlockConfig):
    """As GPT-2 where nothing is said; rotary, rms, swiglu and no bias make the shape of Llama."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["gpt"] = "gpt"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    ffn_width: PositiveInt = 3072
    attention: AttentionConfig = AttentionConfig(heads=12)
    position: PositionKind = "learned"
    activation: ActivationKind = "gelu_tanh"
    norm_position: NormPosition = "pre"
    init: Literal["xavier", "gpt2", "zero"] = "gpt2"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    max_length: PositiveInt = 1024
    """The most tokens that are seen at once."""
    tied: Literal["all", "none"] = "all"
    """Whether embedding and readout are one matrix."""


@runtime_checkable
class Place(Protocol):
    """Where a decoding stands, as a pass over the next tokens asks for it."""

    @property
    def length(self) -> int:
        """The most tokens that any row has read."""
        ...

    @property
    def caches(self) -> Sequence[Cache]: ...
    @property
    def mask(self) -> Mask: ...
    def positions(self, count: int, device: torch.device) -> Int[Tensor, "... positions"]:
        """Where the next tokens stand, counted from the first token of each row."""
        ...


class GPTState:
    """Where a decoding stands: a memory for each block, and the positions of padding before each row."""

    def __init__(self, layers: int, padding: Int[Tensor, " rows"] | None, room: int):
        self.caches = [KVCache(room) for _ in range(layers)]
        self.padding = padding
        self.spare = 0
        """So many of the positions read are padding in every row."""

    @property
    def read(self) -> int:
        """The positions read so far, padding counted."""
        return self.caches[0].length

    @property
    def length(self) -> int:
        """The most tokens that any row has read."""
        return self.read - self.spare

    @property
    def mask(self) -> Mask:
        return Causal() if self.padding is None else LeftPadding(self.padding) & Causal()

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "... positions"]:
        """Where the next tokens stand, counted from the first token of each row."""
        positions = torch.arange(self.read, self.read + count, device=device)
        return positions if self.padding is None else (positions - self.padding[:, None]).clamp(min=0)

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        for memory in self.caches:
            memory.select(rows)
        if self.padding is not None:
            self.padding = self.padding[rows]
            self.spare = int(self.padding.min()) if len(rows) else 0


class GPT(nn.Module):
    """An embedding, a stack in which tokens see those before them, and a readout."""

    Config = GPTConfig
    Processor = Tokenizer

    def __init__(self, config: GPTConfig, vocabulary: int):
        super().__init__()
        self.config = config
        self.tap: Tap | None = None
        self.embedding = Embedding(
            vocabulary, config.width, config.position, config.max_length, config.dropout, scale=1.0
        )
        nn.init.normal_(self.embedding.weight, std=NARROW)
        if isinstance(self.embedding.position, Learned):
            nn.init.normal_(self.embedding.position.weight, std=NARROW)
        self.decoder = Stack(config, config.layers)
        self.readout_weight = self.embedding.weight
        if config.tied == "none":
            self.readout_weight = nn.Parameter(torch.empty(vocabulary, config.width))
            nn.init.normal_(self.readout_weight, std=NARROW)

    @classmethod
    def build(cls, config: GPTConfig, processor: Tokenizer) -> "GPT":
        """A model with fresh weights for a vocabulary."""
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        """Its parts, for whoever looks inside."""
        return Anatomy(
            embeddings={"text": "embedding"},
            stacks=(StackPart("decoder", "text", self.config.layers, ("attention", "feedforward")),),
            attentions=(AttentionPart("decoder", "decoder", "attention", "text", "text", causal=True),),
        )

    def states(self, tokens: Tokens, layout: TextLayout) -> Float[Tensor, "batch positions width"]:
        """The last states at every position."""
        x = self.embedding(tokens, layout.positions)
        return self.decoder(x, layout.mask, layout.positions)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        logits, tap = F.linear(states, self.readout_weight), self.tap
        return logits if tap is None else tap("logits", logits)

    def forward(
        self, tokens: Tokens, layout: TextLayout | None = None
    ) -> Float[Tensor, "batch positions vocabulary"]:
        """The logits of the next token at every position."""
        return self.readout(self.states(tokens, layout or Plain()))

    def start(self, tokens: Tokens, lengths: Int[Tensor, " batch"] | None = None, room: int = 16) -> GPTState:
        """Reads the beginnings of texts, all but the token that the first step is given.

        Rows end together: one that has fewer tokens, `lengths` of them, begins with padding. `room` is made
        for so many positions in all.
        """
        positions = tokens.shape[1]
        padding = None if lengths is None or bool((lengths == positions).all()) else positions - lengths
        state = GPTState(self.config.layers, padding, max(room, positions))
        for part in tokens.split(PREFILL, dim=1) if positions else ():
            self._read(part, state)
        return state

    def step(self, tokens: Int[Tensor, " rows"], state: Place) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; the state moves on."""
        return self.readout(self._read(tokens[:, None], state)[:, 0])

    def _read(self, tokens: Tokens, state: Place) -> Float[Tensor, "batch positions width"]:
        """The last states of tokens that follow what was read before."""
        check_length(state.length + tokens.shape[1], self.config.max_length)
        mask, positions = state.mask, state.positions(tokens.shape[1], tokens.device)
        return self.decoder(self.embedding(tokens, positions), mask, positions, caches=state.caches)

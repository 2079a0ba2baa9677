"""GPT, the decoder-only Transformer that continues a text (Radford et al. 2019)."""

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.accel.int8 import linear
from clearhead.layers.attention import AttentionConfig, Tap
from clearhead.layers.block import GPT2_STD, BlockConfig, Init, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.layout import Plain, TextLayout
from clearhead.layers.norm import NormPosition
from clearhead.layers.positions import Learned, PositionKind
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.causal import CausalModel, States, Tokens
from clearhead.text.tokenizer import Tokenizer

Logits = Float[Tensor, "batch positions vocabulary"]

# Common in newer models.
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
    "shakespeare": {  # as nanoGPT's character model
        **MODERN,
        "width": 384,
        "ffn_width": 1536,
        "layers": 6,
        "attention": {"heads": 6, "qk_norm": "rms"},
        "dropout": 0.2,
        "context_length": 256,
    },
    "shakespeare-small": {
        **MODERN,
        "width": 128,
        "ffn_width": 512,
        "layers": 4,
        "attention": {"heads": 4, "qk_norm": "rms"},
        "context_length": 64,
    },
}


class GPTConfig(BlockConfig):
    """The settings of a GPT. The defaults are GPT-2's; rotary, rms, swiglu and no bias make a Llama."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["gpt"] = "gpt"
    layers: PositiveInt = 12
    width: PositiveInt = 768
    ffn_width: PositiveInt = 3072
    attention: AttentionConfig = AttentionConfig(heads=12)
    position: PositionKind = "learned"
    activation: ActivationKind = "gelu_tanh"
    norm_position: NormPosition = "pre"
    init: Init = "gpt2"
    dropout: float = Field(default=0.0, ge=0, lt=1)
    context_length: PositiveInt = 1024
    """The most tokens the model sees at once."""
    tied: Literal["all", "none"] = "all"
    """Whether the embedding and the readout share one matrix."""

    @property
    def max_positions(self) -> int:
        return self.context_length


class GPT(CausalModel):
    """An embedding, a stack with causal attention, and a readout."""

    Config = GPTConfig
    Processor = Tokenizer

    def __init__(self, config: GPTConfig, vocabulary: int):
        super().__init__()
        self.config = config
        self.tap: Tap | None = None
        self.embedding = Embedding(
            vocabulary, config.width, config.position, config.max_positions, config.dropout, scale=1.0
        )
        nn.init.normal_(self.embedding.weight, std=GPT2_STD)
        if isinstance(self.embedding.position, Learned):
            nn.init.normal_(self.embedding.position.weight, std=GPT2_STD)
        self.decoder = Stack(config, config.layers)
        self.readout_weight = self.embedding.weight
        if config.tied == "none":
            self.readout_weight = nn.Parameter(torch.empty(vocabulary, config.width))
            nn.init.normal_(self.readout_weight, std=GPT2_STD)

    @classmethod
    def build(cls, config: GPTConfig, processor: Tokenizer) -> "GPT":
        """A model with new weights for the tokenizer's vocabulary."""
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"text": "embedding"},
            stacks=(StackPart("decoder", "text", self.config.layers, ("attention", "feedforward")),),
            attentions=(AttentionPart("decoder", "decoder", "attention", "text", "text", causal=True),),
        )

    @property
    def stack(self) -> Stack:
        return self.decoder

    def states(self, tokens: Tokens, layout: TextLayout) -> States:
        """The last hidden state of each token."""
        x = self.embedding(tokens, layout.positions)
        return self.decoder(x, layout.mask, layout.positions)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """The logits of hidden states."""
        logits, tap = linear(states, self.readout_weight), self.tap
        return logits if tap is None else tap("logits", logits)

    def forward(self, tokens: Tokens, layout: TextLayout | None = None) -> Logits:
        """The logits of the next token at every position."""
        return self.readout(self.states(tokens, layout or Plain()))

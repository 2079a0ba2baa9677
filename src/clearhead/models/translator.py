"""The encoder-decoder Transformer of "Attention is all you need" (Vaswani et al. 2017)."""

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from clearhead.layers.block import BlockConfig, Source, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.layout import Padded, PairLayout
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.encoder_decoder import (
    EncoderDecoderConfig,
    SourceTokens,
    TargetStates,
    TargetTokens,
    TransformerDecoding,
)
from clearhead.models.state import TranslatorState
from clearhead.wording import counted

SourceStates = Float[Tensor, "batch source width"]

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {  # Wu et al. 2021
        "width": 128,
        "ffn_width": 256,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "attention": {"heads": 4},
        "dropout": 0.3,
    },
    "small": {
        "width": 256,
        "ffn_width": 1024,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "attention": {"heads": 4},
    },
    "base": {},  # Vaswani et al. 2017, table 3: the defaults
    "big": {"width": 1024, "ffn_width": 4096, "attention": {"heads": 16}, "dropout": 0.3},
}


class TranslatorConfig(EncoderDecoderConfig, BlockConfig):
    """The settings of a translator; the defaults are the paper's base model."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["translator"] = "translator"
    encoder_layers: PositiveInt = 6
    decoder_layers: PositiveInt = 6
    readout_bias: Literal["none", "learned"] = "none"
    """Whether the logits have a bias, as those of Marian do (Junczys-Dowmunt et al. 2018)."""

    @property
    def summary(self) -> str:
        """The main settings in words."""
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        heads = counted(self.attention.heads, "head")
        return f"width {self.width}, ffn_width {self.ffn_width}, {layers}, {heads}"


class Translator(TransformerDecoding):
    """Embeddings, an encoder, a decoder with cross-attention, and a readout."""

    Config = TranslatorConfig
    config: TranslatorConfig

    def __init__(self, config: TranslatorConfig, vocabulary: int):
        super().__init__(config)
        shape = (vocabulary, config.width, config.position, config.max_positions, config.dropout)
        self.source_embedding = Embedding(*shape)
        self.target_embedding = Embedding(*shape)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self._add_readout(vocabulary)
        if config.readout_bias == "learned":
            self.readout_bias = nn.Parameter(torch.zeros(vocabulary))

    def anatomy(self) -> Anatomy:
        config = self.config
        sublayers = ("attention", "cross_attention", "feedforward")
        return Anatomy(
            embeddings={"source": "source_embedding", "target": "target_embedding"},
            stacks=(
                StackPart("encoder", "source", config.encoder_layers, ("attention", "feedforward")),
                StackPart("decoder", "target", config.decoder_layers, sublayers),
            ),
            attentions=(
                AttentionPart("encoder", "encoder", "attention", "source", "source", causal=False),
                AttentionPart("decoder", "decoder", "attention", "target", "target", causal=True),
                AttentionPart("cross", "decoder", "cross_attention", "target", "source", causal=False),
            ),
        )

    def encode(self, source: SourceTokens, layout: PairLayout) -> SourceStates:
        """The encoder's last hidden state of each source token."""
        x = self.source_embedding(source, layout.source_positions, layout.lengths)
        return self.encoder(x, layout.source_mask, layout.source_positions)

    def states(self, source: SourceTokens, layout: PairLayout, target: TargetTokens) -> TargetStates:
        """The decoder's last hidden state of each target token; sentences start with <s>."""
        x = self.target_embedding(target, layout.target_positions)
        encoded = Source([self.encode(source, layout)] * self.config.decoder_layers, layout.cross_mask)
        return self.decoder(x, layout.target_mask, layout.target_positions, encoded)

    def start(self, source: SourceTokens, lengths: Int[Tensor, " batch"]) -> TranslatorState:
        """The state after encoding the source; the first `step` takes <s>."""
        layout = Padded(lengths)
        encoded = self.encode(source, layout)
        return TranslatorState(self.decoder.project_source(encoded, layout.cross_mask), lengths)

"""The encoder-decoder Transformer of "Attention is all you need" (Vaswani et al. 2017)."""

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from clearhead.layers.attention import Tap
from clearhead.layers.block import BlockConfig, EncodedSource, Source, Stack
from clearhead.layers.cache import KVCache
from clearhead.layers.embedding import Embedding
from clearhead.layers.layout import Layout, Padded
from clearhead.layers.mask import Causal, Lengths
from clearhead.layers.positions import check_length
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.text.tokenizer import Tokenizer

Tokens = Int[Tensor, "batch target"]
SourceWords = Int[Tensor, "batch source"]
SourceLengths = Int[Tensor, " batch"]

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


class TranslatorConfig(BlockConfig):
    PRESETS: ClassVar = PRESETS
    kind: Literal["translator"] = "translator"
    encoder_layers: PositiveInt = 6
    decoder_layers: PositiveInt = 6
    tied: Literal["all", "target", "none"] = "all"
    """Which matrices are one: source, target and readout; target and readout; none."""

    @property
    def max_tokens(self) -> int:
        """The most tokens a text may have beside the sign, </s> or <s>, that it is read with."""
        return self.max_length - 1


class TranslatorState:
    """Where a decoding stands: a memory for each block, and the source that each row translates."""

    def __init__(self, source: Source, lengths: Int[Tensor, " rows"]):
        self.source = source
        self.lengths = lengths
        self.caches = [KVCache() for _ in source.read]
        self.sentences = torch.arange(len(lengths), device=lengths.device)

    @property
    def position(self) -> int:
        return self.caches[0].length

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        for memory in self.caches:
            memory.select(rows)
        sentences = self.sentences[rows]
        # Beams mostly change positions within their sentence: then the source, the larger part, can stay.
        if torch.equal(sentences, self.sentences):
            return
        self.sentences = sentences
        self.lengths = self.lengths[rows]
        self.source = Source([read.select(rows) for read in self.source.read], Lengths(self.lengths))


class Translator(nn.Module):
    """Embeddings, an encoder, a decoder that consults it, and a readout."""

    Config = TranslatorConfig
    Processor = Tokenizer

    def __init__(self, config: TranslatorConfig, vocabulary: int):
        super().__init__()
        self.config = config
        self.tap: Tap | None = None
        shape = (vocabulary, config.width, config.position, config.max_length, config.dropout)
        self.source_embedding = Embedding(*shape)
        self.target_embedding = Embedding(*shape)
        self.encoder = Stack(config, config.encoder_layers)
        self.decoder = Stack(config, config.decoder_layers, cross=True)
        self.readout_weight = nn.Parameter(torch.randn(vocabulary, config.width) * config.width**-0.5)
        if config.tied == "all":
            self.target_embedding.weight = self.source_embedding.weight
        if config.tied != "none":
            self.readout_weight = self.target_embedding.weight

    @classmethod
    def build(cls, config: TranslatorConfig, processor: Tokenizer) -> "Translator":
        """A model with fresh weights for a vocabulary that both sides share."""
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        """Its parts, for whoever looks inside."""
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

    def encode(self, source: SourceWords, layout: Layout) -> Float[Tensor, "batch source width"]:
        """The encoder's last states at every position of the source."""
        x = self.source_embedding(source, layout.source_positions, layout.lengths)
        return self.encoder(x, layout.source, layout.source_positions)

    def states(
        self, source: SourceWords, layout: Layout, target: Tokens
    ) -> Float[Tensor, "batch target width"]:
        """The decoder's last states at every position of the target, in which sentences start with <s>."""
        x = self.target_embedding(target, layout.target_positions)
        unread = EncodedSource(self.encode(source, layout), layout.across)
        return self.decoder(x, layout.target, layout.target_positions, unread)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        logits, tap = F.linear(states, self.readout_weight), self.tap
        return logits if tap is None else tap("logits", logits)

    def forward(
        self, source: SourceWords, layout: Layout, target: Tokens
    ) -> Float[Tensor, "batch target vocabulary"]:
        """The logits of the next token at every position of the target."""
        return self.readout(self.states(source, layout, target))

    def start(self, source: SourceWords, lengths: SourceLengths) -> TranslatorState:
        """Reads the source; each row of the state then awaits its first token, <s>."""
        layout = Padded(lengths)
        return TranslatorState(self.decoder.read(self.encode(source, layout), layout.across), lengths)

    def step(self, tokens: Int[Tensor, " rows"], state: TranslatorState) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; the state moves on."""
        check_length(state.position + 1, self.config.max_length)
        positions = torch.full((1,), state.position, device=tokens.device)
        x = self.target_embedding(tokens[:, None], positions)
        x = self.decoder(x, Causal(), positions, state.source, state.caches)
        return self.readout(x[:, 0])

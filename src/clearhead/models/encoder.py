"""The Transformer encoder: every token sees the whole text; a head reads the states (Devlin et al. 2019)."""

from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from clearhead.layers.attention import AttentionConfig, Tap
from clearhead.layers.block import BlockConfig, Init, Stack, norm_of
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ActivationKind
from clearhead.layers.layout import PaddedText, TextLayout
from clearhead.layers.norm import NormPosition
from clearhead.layers.positions import PositionKind
from clearhead.models.anatomy import Anatomy, AttentionPart, StackPart
from clearhead.models.causal import CausalModel
from clearhead.models.heads import ClassifierConfig, HeadConfig, MaskedTokens, StatesHead, make_head
from clearhead.text.processor import TextProcessor

Tokens = Int[Tensor, "batch positions"]
States = Float[Tensor, "batch positions width"]
Lengths = Int[Tensor, " batch"]

PRESETS: dict[str, dict[str, Any]] = {
    # As in newer encoders (Warner et al. 2024), and what small budgets gain by (Geiping and Goldstein 2022).
    "modern": {
        "position": "rotary",
        "norm": "rms",
        "activation": "swiglu",
        "bias": False,
        "init": "zero",
        "dropout": 0.0,
        "attention": {"heads": 4, "qk_norm": "rms"},
    },
}


class EncoderConfig(BlockConfig):
    """The settings of an encoder; the defaults suit a few thousand short texts."""

    PRESETS: ClassVar = PRESETS

    kind: Literal["encoder"] = "encoder"
    layers: PositiveInt = 2
    width: PositiveInt = 128
    ffn_width: PositiveInt = 512
    attention: AttentionConfig = AttentionConfig(heads=4)
    position: PositionKind = "rotary"
    activation: ActivationKind = "gelu_tanh"
    norm_position: NormPosition = "pre"
    init: Init = "xavier"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    max_length: PositiveInt = 512
    """Maximum tokens of a text; of a longer one, its beginning (a quarter of them) and its end are kept."""
    embedding_norm: bool = False
    """Whether the sum of token, type and position vectors is normalised, and tokens are not scaled, as in
    BERT (Devlin et al. 2019)."""
    token_types: NonNegativeInt = 0
    """Number of token types, each with a vector: BERT has two, for the sentences of a pair."""
    head: HeadConfig = ClassifierConfig()

    @property
    def max_positions(self) -> int:
        return self.max_length


class Encoder(CausalModel):
    """An embedding, a stack in which all tokens attend to all, and a head.

    One that was trained to predict the next token too, under a causal mask, can generate text (`start`,
    `step`).
    """

    Config = EncoderConfig
    Processor = TextProcessor

    def __init__(self, config: EncoderConfig, vocabulary: int, head: nn.Module | None = None):
        super().__init__()
        self.config = config
        self.embedding = Embedding(
            vocabulary,
            config.width,
            config.position,
            config.max_positions,
            config.dropout,
            scale=1.0 if config.embedding_norm else None,
            token_types=config.token_types,
            norm=norm_of(config) if config.embedding_norm else None,
        )
        self.tap: Tap | None = None
        self.encoder = Stack(config, config.layers)
        self.head = head or StatesHead()

    @classmethod
    def build(cls, config: EncoderConfig, processor: TextProcessor) -> "Encoder":
        model = cls(config, processor.size)
        model.head = make_head(config.head, config.width, processor, model)
        return model

    @property
    def stack(self) -> Stack:
        return self.encoder

    @property
    def readout_weight(self) -> Float[Tensor, "vocabulary width"]:  # pyright: ignore
        """The matrix of the logits, of a model that predicts tokens."""
        return self.head.weight  # pyright: ignore[reportReturnType]

    @property
    def predicts_tokens(self) -> bool:
        """Whether the head has the logits of a vocabulary."""
        return isinstance(self.head, MaskedTokens)

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"text": "embedding"},
            stacks=(StackPart("encoder", "text", self.config.layers, ("attention", "feedforward")),),
            attentions=(AttentionPart("encoder", "encoder", "attention", "text", "text", causal=False),),
            readout="readout" if self.predicts_tokens else None,
        )

    def states(self, tokens: Tokens, layout: TextLayout, token_types: Tokens | None = None) -> States:
        """The last hidden state of each token."""
        lengths = layout.lengths if isinstance(layout, PaddedText) else None
        x = self.embedding(tokens, layout.positions, lengths, token_types)
        return self.encoder(x, layout.mask, layout.positions)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        token_types: Tokens | None = None,
        positions: Tokens | None = None,
    ) -> Tensor:
        """What the head reads out of texts that are padded after `lengths` tokens."""
        states = self.states(tokens, PaddedText(lengths, positions), token_types)
        return self.readout(states) if self.predicts_tokens else self.head(states, lengths)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """The logits of hidden states; of a model that predicts tokens."""
        logits, tap = self.head.readout(states), self.tap  # pyright: ignore
        return logits if tap is None else tap("logits", logits)

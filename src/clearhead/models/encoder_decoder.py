"""What all models with an encoder and a decoder share: settings, tied matrices, readout, decoding steps."""

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from clearhead.accel.int8 import linear
from clearhead.config import PresetSettings
from clearhead.layers.attention import Tap
from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.positions import check_length
from clearhead.models.anatomy import Anatomy
from clearhead.models.state import SourceTextState
from clearhead.text.tokenizer import Tokenizer

SourceTokens = Int[Tensor, "batch source"]
TargetTokens = Int[Tensor, "batch target"]
TargetStates = Float[Tensor, "batch target width"]
Logits = Float[Tensor, "batch target vocabulary"]


class EncoderDecoderConfig(PresetSettings):
    """The settings that all models with a source and a target share."""

    max_length: PositiveInt = 512
    """The most tokens of a source or target, its special token included."""
    tied: Literal["all", "target", "none"] = "all"
    """Which matrices are shared: source, target and readout; target and readout; none."""

    @property
    def max_positions(self) -> int:
        return self.max_length

    @property
    def max_tokens(self) -> int:
        """The most tokens of a text without its special token, </s> in a source and <s> in a target."""
        return self.max_length - 1

    @property
    def shards(self) -> bool:
        """Whether each of several ranks can hold a part of the weights."""
        return True


class EncoderDecoder(nn.Module, ABC):
    """A model that reads a source, a text or an image, and writes a target."""

    Processor = Tokenizer
    config: Any
    source_embedding: Embedding
    target_embedding: Embedding
    readout_weight: Tensor
    readout_bias: Tensor | None

    def __init__(self, config: EncoderDecoderConfig):
        super().__init__()
        self.config = config
        self.tap: Tap | None = None
        self.register_parameter("readout_bias", None)

    @classmethod
    def build(cls, config: Any, processor: Tokenizer) -> Any:
        """A model with new weights for a vocabulary that both sides share."""
        return cls(config, processor.size)  # pyright: ignore[reportCallIssue]

    @abstractmethod
    def anatomy(self) -> Anatomy: ...

    @abstractmethod
    def states(self, source: Tensor, layout: Any, target: TargetTokens) -> TargetStates:
        """The vector that each target token is read out from; sentences start with <s>.

        The layout says how sentences lie in the rows: a PairLayout; a TextLayout if the source is not text.
        """

    @abstractmethod
    def start(self, source: Tensor, lengths: Int[Tensor, " batch"]) -> Any:
        """The state after encoding the source; the first `step` takes <s>."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " rows"], state: Any) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; advances the state."""

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """The logits of hidden states."""
        logits, tap = linear(states, self.readout_weight, self.readout_bias), self.tap
        return logits if tap is None else tap("logits", logits)

    def forward(self, source: Tensor, layout: Any, target: TargetTokens) -> Logits:
        """The logits of the next token at every target position."""
        return self.readout(self.states(source, layout, target))

    def _add_readout(self, vocabulary: int) -> None:
        """Adds the readout, and ties the matrices that the settings name."""
        width, tied = self.config.width, self.config.tied
        self.readout_weight = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        if tied == "all":
            self.target_embedding.weight = self.source_embedding.weight
        if tied != "none":
            self.readout_weight = self.target_embedding.weight


class TransformerDecoding(EncoderDecoder):
    """An encoder-decoder whose decoder is a stack of blocks with cross-attention."""

    decoder: Stack

    def step(self, tokens: Int[Tensor, " rows"], state: SourceTextState) -> Float[Tensor, "rows vocabulary"]:
        """The logits of the token after these; advances the state."""
        return self.readout(self.step_states(tokens, state))

    def step_states(
        self, tokens: Int[Tensor, " rows"], state: SourceTextState
    ) -> Float[Tensor, "rows width"]:
        """The last hidden states, from which the next tokens are read out; advances the state."""
        check_length(state.length + 1, self.config.max_positions)
        positions = state.positions(1, tokens.device)
        x = self.target_embedding(tokens[:, None], positions)
        return self.decoder(x, state.mask, positions, state.source, state.caches)[:, 0]

"""A recurrent classifier that reads a text in both directions (Schuster and Paliwal 1997)."""

from typing import Literal

from jaxtyping import Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.embedding import Embedding
from clearhead.layers.recurrent import Recurrent
from clearhead.models.anatomy import Anatomy, RecurrentPart
from clearhead.models.heads import ClassifierConfig, StatesHead, make_head
from clearhead.text.processor import TextProcessor

Tokens = Int[Tensor, "batch positions"]
Lengths = Int[Tensor, " batch"]


class BiLSTMConfig(Settings):
    """The settings of a bidirectional LSTM; the defaults suit a few thousand short texts."""

    kind: Literal["bilstm"] = "bilstm"
    layers: PositiveInt = 1
    width: PositiveInt = 128
    """Of the embeddings, and of each direction."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Of embeddings, and between layers."""
    max_length: PositiveInt = 512
    """Maximum tokens of a text; of a longer one, its beginning (a quarter of them) and its end are kept."""
    head: ClassifierConfig = ClassifierConfig(pooling="max", dropout=0.3)


class BiLSTM(nn.Module):
    """Embeddings, LSTM layers that read in both directions, and a head."""

    Config = BiLSTMConfig
    Processor = TextProcessor

    def __init__(self, config: BiLSTMConfig, vocabulary: int, head: nn.Module | None = None):
        super().__init__()
        self.config = config
        self.embedding = Embedding(vocabulary, config.width, "none", config.max_length, config.dropout)
        self.encoder = Recurrent(
            "lstm", config.width, config.width, config.layers, config.dropout, reads="both"
        )
        self.head = head or StatesHead()

    @classmethod
    def build(cls, config: BiLSTMConfig, processor: TextProcessor) -> "BiLSTM":
        model = cls(config, processor.size)
        model.head = make_head(config.head, 2 * config.width, processor, model)
        return model

    def anatomy(self) -> Anatomy:
        return Anatomy(
            embeddings={"text": "embedding"},
            stacks=(),
            attentions=(),
            readout=None,
            recurrences=(RecurrentPart("encoder", "text", self.config.layers, "lstm", directions=2),),
        )

    def forward(self, tokens: Tokens, lengths: Lengths) -> Tensor:
        """What the head reads out of texts that are padded after `lengths` tokens."""
        states, _ = self.encoder(self.embedding(tokens), lengths)
        return self.head(states, lengths)

"""Heads: what a model reads out of the states of a text; to add one, add its settings and a row to HEADS."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.mask import LengthMask
from clearhead.text.processor import TextProcessor

States = Float[Tensor, "batch positions width"]
Lengths = Int[Tensor, " batch"]


POOLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
}


class ClassifierConfig(Settings):
    """One class for the whole text."""

    kind: Literal["classifier"] = "classifier"
    pooling: Literal["mean", "max", "first", "last"] = "mean"
    """How the states of all positions become one vector; first: the state of the first token, as in BERT."""
    pooler: Literal["none", "tanh", "relu"] = "none"
    """The activation of a dense layer after pooling; BERT has tanh (Devlin et al. 2019)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)


class Classifier(nn.Module):
    """The logits of the classes, from the pooled states of a text."""

    def __init__(self, config: ClassifierConfig, width: int, classes: int):
        super().__init__()
        self.config = config
        self.pooler = nn.Identity() if config.pooler == "none" else nn.Linear(width, width)
        self.output = nn.Linear(width, classes)

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch classes"]:
        pooled = POOLERS[self.config.pooler](self.pooler(self.pool(states, lengths)))
        return self.output(F.dropout(pooled, self.config.dropout, self.training))

    def pool(self, states: States, lengths: Lengths) -> Float[Tensor, "batch width"]:
        """One vector for each text."""
        if self.config.pooling == "first":
            return states[:, 0]
        if self.config.pooling == "last":
            return states[torch.arange(len(states), device=states.device), lengths - 1]
        inside = LengthMask(lengths).dense(1, states.shape[1], states.device)
        assert inside is not None
        inside = inside[:, 0, 0, :, None]
        if self.config.pooling == "mean":
            return (states * inside).sum(1) / lengths[:, None].to(states.dtype)
        return states.masked_fill(~inside, float("-inf")).amax(1)


class SpanConfig(Settings):
    """Two scores for each token: that an answer starts there, and that it ends there."""

    kind: Literal["span"] = "span"
    dropout: float = Field(default=0.1, ge=0, lt=1)


class SpanHead(nn.Module):
    """The logits of the start and of the end of an answer (Devlin et al. 2019)."""

    def __init__(self, config: SpanConfig, width: int):
        super().__init__()
        self.config = config
        self.readout = nn.Linear(width, 2)

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch positions 2"]:
        return self.readout(F.dropout(states, self.config.dropout, self.training))


class StatesHead(nn.Module):
    """The states as they are, of a model without a head."""

    def forward(self, states: States, lengths: Lengths) -> States:
        return states


HeadConfig = Annotated[ClassifierConfig | SpanConfig, Field(discriminator="kind")]
HEADS: dict[str, Callable[[Any, int, TextProcessor], nn.Module]] = {
    "classifier": lambda config, width, processor: Classifier(config, width, len(processor.labels)),
    "span": lambda config, width, processor: SpanHead(config, width),
}
"""What makes each head from its settings, the width of the states and the processor."""


def make_head(config: HeadConfig, width: int, processor: TextProcessor) -> nn.Module:
    """The head that the settings describe."""
    return HEADS[config.kind](config, width, processor)

"""Heads: what a model reads out of its states; to add one, add its settings and a row to HEADS."""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.mask import LengthMask

States = Float[Tensor, "batch positions width"]
Lengths = Int[Tensor, " batch"]


POOLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
}


class ClassifierConfig(Settings):
    """One class for the whole input."""

    kind: Literal["classifier"] = "classifier"
    pooling: Literal["mean", "max", "first", "sequence"] = "mean"
    """How the states of all positions become one vector. first: the state of the first token, as in BERT.
    sequence: their mean with learned weights (Hassani et al. 2021)."""
    pooler: Literal["none", "tanh", "relu"] = "none"
    """The activation of a dense layer after pooling; BERT has tanh (Devlin et al. 2019)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)


class Classifier(nn.Module):
    """The logits of the classes, from the pooled states of a text or image."""

    def __init__(self, config: ClassifierConfig, width: int, classes: int):
        super().__init__()
        self.config = config
        if config.pooling == "sequence":
            self.score = nn.Linear(width, 1)
        self.pooler = nn.Identity() if config.pooler == "none" else nn.Linear(width, width)
        self.output = nn.Linear(width, classes)

    def forward(self, states: States, lengths: Lengths | None = None) -> Float[Tensor, "batch classes"]:
        pooled = POOLERS[self.config.pooler](self.pooler(self.pool(states, lengths)))
        return self.output(F.dropout(pooled, self.config.dropout, self.training))

    def pool(self, states: States, lengths: Lengths | None = None) -> Float[Tensor, "batch width"]:
        """One vector for each row; without lengths, all positions count."""
        if self.config.pooling == "first":
            return states[:, 0]
        if lengths is None:
            lengths = torch.full((states.shape[0],), states.shape[1], device=states.device)
        inside = LengthMask(lengths).dense(1, states.shape[1], states.device)
        assert inside is not None
        inside = inside[:, 0, 0, :, None]
        if self.config.pooling == "mean":
            return (states * inside).sum(1) / lengths[:, None].to(states.dtype)
        if self.config.pooling == "max":
            return states.masked_fill(~inside, float("-inf")).amax(1)
        return (self.weights(states, inside) * states).sum(1)

    def weights(
        self, states: States, inside: Bool[Tensor, "batch positions 1"]
    ) -> Float[Tensor, "batch positions 1"]:
        """The share of each position in sequence pooling."""
        return self.score(states).masked_fill(~inside, float("-inf")).softmax(1).to(states.dtype)


class StatesHead(nn.Module):
    """The states as they are, of a model without a head."""

    def forward(self, states: States, lengths: Lengths | None = None) -> States:
        return states


HeadConfig = ClassifierConfig
HEADS: dict[str, Callable[[Any, int, Any], nn.Module]] = {
    "classifier": lambda config, width, processor: Classifier(config, width, len(processor.labels)),
}
"""What makes each head from its settings, the width of the states and the processor."""


def make_head(config: HeadConfig, width: int, processor: Any) -> nn.Module:
    """The head that the settings describe."""
    return HEADS[config.kind](config, width, processor)

"""Heads: what a model reads out of its states; to add one, add its settings and a row to HEADS."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.block import BlockConfig, norm_of
from clearhead.layers.embedding import Embedding
from clearhead.layers.feedforward import ACTIVATIONS
from clearhead.layers.mask import LengthMask

States = Float[Tensor, "batch positions width"]
Lengths = Int[Tensor, " batch"]
Pooled = Float[Tensor, "batch width"]


def mean_pool(states: States, lengths: Lengths) -> Pooled:
    """The mean state of each text."""
    return (states * _inside(states, lengths)).sum(1) / lengths[:, None].to(states.dtype)


def max_pool(states: States, lengths: Lengths) -> Pooled:
    """The largest value of each dimension."""
    return states.masked_fill(~_inside(states, lengths), float("-inf")).amax(1)


def last_state(states: States, lengths: Lengths) -> Pooled:
    return states[torch.arange(len(states), device=states.device), lengths - 1]


def _inside(states: States, lengths: Lengths) -> Bool[Tensor, "batch positions 1"]:
    """Whether positions belong to the text."""
    inside = LengthMask(lengths).dense(1, states.shape[1], states.device)
    assert inside is not None
    return inside[:, 0, 0, :, None]


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": mean_pool,
    "max": max_pool,
    "first": lambda states, lengths: states[:, 0],
    "last": last_state,
}
"""What makes one vector of the states of a text; `Classifier` adds the one with weights of its own."""
POOLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
}
"""The activation of the dense layer after pooling."""


class ClassifierConfig(Settings):
    """One class for the whole input."""

    kind: Literal["classifier"] = "classifier"
    pooling: Literal["mean", "max", "first", "last", "sequence"] = "mean"
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

    def pool(self, states: States, lengths: Lengths | None = None) -> Pooled:
        """One vector for each row; without lengths, all positions count."""
        if lengths is None:
            lengths = torch.full((states.shape[0],), states.shape[1], device=states.device)
        if self.config.pooling == "sequence":
            scores = self.score(states).masked_fill(~_inside(states, lengths), float("-inf"))
            return (scores.softmax(1).to(states.dtype) * states).sum(1)
        return POOLINGS[self.config.pooling](states, lengths)


class SpanConfig(Settings):
    """Two scores for each token: that an answer starts there, and that it ends there."""

    kind: Literal["span"] = "span"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    order: Literal["text_first", "question_first"] = "text_first"
    """Which of the two comes first; BERT has question_first, and token types 0 and 1."""


class SpanHead(nn.Module):
    """The logits of the start and of the end of an answer (Devlin et al. 2019)."""

    def __init__(self, config: SpanConfig, width: int):
        super().__init__()
        self.config = config
        self.readout = nn.Linear(width, 2)

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch positions 2"]:
        states = F.dropout(states, self.config.dropout, self.training).float()
        # Spans are compared by sums of two logits, for which bf16 is too coarse.
        with torch.autocast(states.device.type, enabled=False):
            return self.readout(states)


class StatesHead(nn.Module):
    """The states as they are, of a model without a head."""

    def forward(self, states: States, lengths: Lengths | None = None) -> States:
        return states


class MaskedTokensConfig(Settings):
    """The token behind each mask; logits are products with the token embeddings."""

    kind: Literal["masked_tokens"] = "masked_tokens"
    predict_from: Literal["mask", "previous"] = "mask"
    """The state that predicts a masked token: its own, or that of the token before it. With the latter, one
    model can also generate text (Charpentier and Samuel 2024)."""
    transform: bool = False
    """Whether states go through a dense layer, the activation of the blocks and a norm first, and the logits
    have a bias, as in BERT (Devlin et al. 2019)."""


class Transform(nn.Module):
    """What BERT does with a state before the readout (Devlin et al. 2019)."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        # A gated network has no activation of its own.
        self.activation = ACTIVATIONS.get(config.activation, F.gelu)
        self.norm = norm_of(config)

    def forward(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        return self.norm(self.activation(self.dense(states)))


class MaskedTokens(nn.Module):
    """The logits of the vocabulary at every position; its matrix is that of the token embeddings."""

    def __init__(self, config: MaskedTokensConfig, block: BlockConfig, embedding: Embedding):
        super().__init__()
        self.config = config
        self.weight = embedding.weight
        self.bias = nn.Parameter(torch.zeros(len(self.weight))) if config.transform else None
        self.transform = Transform(block) if config.transform else nn.Identity()

    def forward(self, states: States, lengths: Lengths) -> Float[Tensor, "batch positions vocabulary"]:
        return self.readout(states)

    def readout(self, states: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """The logits of hidden states."""
        return F.linear(self.transform(states), self.weight, self.bias)


HeadConfig = Annotated[ClassifierConfig | MaskedTokensConfig | SpanConfig, Field(discriminator="kind")]
HEADS: dict[str, Callable[[Any, int, Any, Any], nn.Module]] = {
    "classifier": lambda config, width, processor, _: Classifier(config, width, len(processor.labels)),
    "masked_tokens": lambda config, width, processor, model: MaskedTokens(
        config, model.config, model.embedding
    ),
    "span": lambda config, width, *_: SpanHead(config, width),
}
"""What makes each head from its settings, the width of the states, the processor and the model it is for."""


def make_head(config: HeadConfig, width: int, processor: Any, model: nn.Module) -> nn.Module:
    """The head that the settings describe."""
    return HEADS[config.kind](config, width, processor, model)

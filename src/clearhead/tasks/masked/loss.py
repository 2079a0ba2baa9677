"""The loss of masked tokens, and how many of them a model gets right."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import exp

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX, TextBatch
from clearhead.data.batching.masking import MaskedBatch
from clearhead.layers.layout import Documents, PackedText
from clearhead.models import Encoder
from clearhead.models.heads import MaskedTokens, MaskedTokensConfig
from clearhead.training import Criterion, chunked_cross_entropy

CRITERION = Criterion(ignore_index=IGNORE_INDEX)
# Logits in memory at once: with a large vocabulary, those of a whole batch would be too many.
LOGITS = 1 << 25


@dataclass(frozen=True)
class MaskedScore:
    """How well masked tokens are predicted."""

    tokens: int
    nats: float
    correct: int

    @property
    def loss(self) -> float:
        """Nats per masked token."""
        return self.nats / self.tokens

    @property
    def accuracy(self) -> float:
        return self.correct / self.tokens

    @property
    def perplexity(self) -> float:
        return exp(min(self.loss, 700.0))


def masked_states(model: Encoder, batch: MaskedBatch) -> Float[Tensor, "rows hidden width"]:
    """The states that predict the hidden tokens of a batch; only these are read out."""
    states = model.states(batch.inputs, PackedText(batch.segments, batch.positions))
    columns = predicting(model.config.head, batch.columns).long()
    return states.gather(1, columns[..., None].expand(-1, -1, states.shape[-1]))


def predicting(config: MaskedTokensConfig, positions: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """The position of the state that predicts the token at each of these positions."""
    # The first position is never predicted; it stands where a row has fewer hidden tokens than slots.
    return positions if config.predict_from == "mask" else (positions - 1).clamp_min(0)


def masked_loss(model: Encoder, batch: MaskedBatch | TextBatch) -> Tensor:
    """Cross-entropy summed over the hidden tokens, or over the next tokens of a batch without masks."""
    if isinstance(batch, TextBatch):
        states = model.states(batch.inputs, Documents(batch.documents, batch.positions))
        return _cross_entropy(model, states, batch.labels)
    return _cross_entropy(model, masked_states(model, batch), batch.labels)


@torch.no_grad()
def masked_score(
    model: Encoder, batches: Iterable[MaskedBatch], autocast: AbstractContextManager | None = None
) -> MaskedScore:
    """The score over all hidden tokens of batches."""
    model.eval()
    device = next(model.parameters()).device
    nats, tokens, correct = 0.0, 0, 0
    for batch in batches:
        batch = batch.to(device)
        with autocast or nullcontext():
            states, hidden = masked_states(model, batch), batch.labels != IGNORE_INDEX
            chosen, labels = states[hidden], batch.labels[hidden].long()
            rows = max(1, LOGITS // len(model.readout_weight))
            for some, wanted in zip(chosen.split(rows), labels.split(rows), strict=True):
                logits = model.readout(some).float()
                nats += F.cross_entropy(logits, wanted, reduction="sum").item()
                correct += int((logits.argmax(-1) == wanted).sum())
        tokens += len(labels)
    return MaskedScore(tokens, nats, correct)


def _cross_entropy(model: Encoder, states: Tensor, labels: Tensor) -> Tensor:
    head = model.head
    assert isinstance(head, MaskedTokens)
    return chunked_cross_entropy(head.transform(states)[None], head.weight, labels, CRITERION, head.bias)

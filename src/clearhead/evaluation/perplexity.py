"""Perplexity of a language model: loss, perplexity, and bits per byte over a sliding window."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.delimited import DelimitedDocuments
from clearhead.layers.layout import Plain
from clearhead.text.tokenizer import PAD

# Tokens per batch, padding included.
TOKENS = 16384
# Logits in memory at once: with a large vocabulary, those of a whole batch would be too many.
LOGITS = 1 << 25


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text: its predicted tokens, their negative log-likelihood, and its bytes."""

    tokens: int
    nats: float
    bytes: int
    window: int
    stride: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return exp(min(self.loss, 700.0))

    @property
    def bits_per_byte(self) -> float:
        """Comparable across tokenizers."""
        return self.nats / log(2) / self.bytes

    def record(self) -> dict[str, float]:
        names = ("loss", "perplexity", "bits_per_byte", "tokens", "bytes", "window", "stride")
        return {name: getattr(self, name) for name in names}


@torch.no_grad()
def perplexity(
    model: nn.Module,
    documents: DelimitedDocuments,
    size: int,
    stride: int | None = None,
    follow: Callable[[int, int], None] = lambda done, total: None,
) -> Perplexity:
    """The perplexity of documents of `size` bytes, each token predicted once in a sliding window.

    The model has `states(tokens, layout)`, `readout(states)` and `config.max_positions`, which is the window.
    The window moves by `stride` tokens, by default half of it, so that each token but the first ones has at
    least window - stride tokens of context. The end token of a document is not predicted, because it is not
    part of the text; nor are prompts, where only answers are labels. `follow` gets the number of windows done
    and their total.
    """
    language_model: Any = model
    window = language_model.config.max_positions
    stride = min(stride or max(1, window // 2), window)
    device = next(model.parameters()).device
    model.eval()
    nats, tokens, done, total = 0.0, 0, 0, len(_spans(documents, window, stride)[0])
    follow(done, total)
    for inputs, labels in windows(documents, window, stride):
        inputs, labels = inputs.to(device), labels.to(device)
        predicted = labels != IGNORE_INDEX
        states, targets = language_model.states(inputs, Plain())[predicted], labels[predicted].long()
        rows = max(1, LOGITS // language_model.readout(states[:0]).shape[-1])
        for some, wanted in zip(states.split(rows), targets.split(rows), strict=True):
            nats += F.cross_entropy(language_model.readout(some).float(), wanted, reduction="sum").item()
        tokens, done = tokens + int(predicted.sum()), done + len(inputs)
        follow(done, total)
    return Perplexity(tokens, nats, size, window, stride)


def windows(documents: DelimitedDocuments, window: int, stride: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of inputs and labels in which each token is a label once, with as much context as possible."""
    document, start, first, end = _spans(documents, window, stride)
    rows = max(1, TOKENS // window)
    for here in range(0, len(document), rows):
        some = slice(here, here + rows)
        position = start[some, None] + np.arange(min(window, int((end - start)[some].max())))
        valid = position < end[some, None]
        number, inside = np.broadcast_to(document[some, None], position.shape)[valid], position[valid]
        inputs = np.full(position.shape, PAD, np.int32)
        labels = np.full(position.shape, IGNORE_INDEX, np.int32)
        inputs[valid], labels[valid] = documents.tokens(number, inside), documents.tokens(number, inside + 1)
        learned = np.zeros(position.shape, dtype=bool)
        learned[valid] = documents.is_label(number, inside + 1)
        labels[(position < first[some, None]) | ~learned] = IGNORE_INDEX
        yield torch.from_numpy(inputs), torch.from_numpy(labels)


def _spans(documents: DelimitedDocuments, window: int, stride: int) -> tuple[NDArray[np.int64], ...]:
    """The document, start, first predicting position and end of each window."""
    predicted = documents.lengths - (2 if documents.delimiters else 1)
    counts = np.where(predicted > 0, 1 + -(-np.maximum(predicted - window, 0) // stride), 0)
    document = np.repeat(np.arange(len(predicted)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = number * stride
    first = np.where(number > 0, start - stride + window, 0)
    return document, start, first, np.minimum(start + window, predicted[document])

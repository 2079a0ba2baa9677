"""How well a language model foresees a text: loss, perplexity, and bits for each byte."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.delimited import DelimitedDocuments
from clearhead.layers.layout import Plain
from clearhead.models import GPT
from clearhead.text.tokenizer import PAD

# Cells of a batch.
TOKENS = 16384
# Logits that are held at once: of a large vocabulary, a batch has more than memory need hold.
LOGITS = 1 << 25


@dataclass(frozen=True)
class Perplexity:
    """What a model thinks of a text; bytes are all of the text, tokens those that were foreseen."""

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
        """Among how many tokens, as it were, the model is undecided at each position."""
        return exp(min(self.loss, 700.0))

    @property
    def bits_per_byte(self) -> float:
        """Which does not depend on how the text is cut into tokens."""
        return self.nats / log(2) / self.bytes

    def record(self) -> dict[str, float]:
        names = ("loss", "perplexity", "bits_per_byte", "tokens", "bytes", "window", "stride")
        return {name: getattr(self, name) for name in names}


@torch.no_grad()
def perplexity(
    model: GPT,
    documents: DelimitedDocuments,
    size: int,
    stride: int | None = None,
    follow: Callable[[int, int], None] = lambda done, total: None,
) -> Perplexity:
    """Every token of the documents, which have so many bytes, foreseen once through a sliding window.

    The window is as long as the model sees. It moves by `stride` positions, half of it if left out, so that each
    token but the first ones is foreseen from at least window - stride tokens. The sign after a document is not
    asked for, as it is no part of the text; nor are prompts, where only answers are learned. Whoever follows
    is told how many windows are done, and of how many.
    """
    window = model.config.max_length
    stride = min(stride or max(1, window // 2), window)
    rows = max(1, LOGITS // len(model.readout_weight))
    model.eval()
    nats, tokens, done, total = 0.0, 0, 0, len(_places(documents, window, stride)[0])
    follow(done, total)
    for inputs, labels in windows(documents, window, stride):
        inputs, labels = (part.to(model.readout_weight.device) for part in (inputs, labels))
        states, asked = model.states(inputs, Plain()), labels != IGNORE_INDEX
        for some, wanted in zip(states[asked].split(rows), labels[asked].long().split(rows), strict=True):
            nats += F.cross_entropy(model.readout(some).float(), wanted, reduction="sum").item()
        tokens, done = tokens + int(asked.sum()), done + len(inputs)
        follow(done, total)
    return Perplexity(tokens, nats, size, window, stride)


def windows(documents: DelimitedDocuments, window: int, stride: int) -> Iterator[tuple[Tensor, Tensor]]:
    """What a model reads, and what it is asked for there: each token once, with the most tokens before it."""
    document, start, first, end = _places(documents, window, stride)
    rows = max(1, TOKENS // window)
    for here in range(0, len(document), rows):
        some = slice(here, here + rows)
        position = start[some, None] + np.arange(min(window, int((end - start)[some].max())))
        there = position < end[some, None]
        number, inside = np.broadcast_to(document[some, None], position.shape)[there], position[there]
        inputs, labels = (
            np.full(position.shape, PAD, np.int32),
            np.full(position.shape, IGNORE_INDEX, np.int32),
        )
        inputs[there], labels[there] = documents.tokens(number, inside), documents.tokens(number, inside + 1)
        learned = np.zeros(position.shape, dtype=bool)
        learned[there] = documents.is_label(number, inside + 1)
        labels[(position < first[some, None]) | ~learned] = IGNORE_INDEX
        yield torch.from_numpy(inputs), torch.from_numpy(labels)


def _places(documents: DelimitedDocuments, window: int, stride: int) -> tuple[NDArray[np.int64], ...]:
    """Of each window: its document, where it starts, from where on it is asked, and where it ends."""
    asked = documents.lengths - (2 if documents.delimiters else 1)
    counts = np.where(asked > 0, 1 + -(-np.maximum(asked - window, 0) // stride), 0)
    document = np.repeat(np.arange(len(asked)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = number * stride
    first = np.where(number > 0, start - stride + window, 0)
    return document, start, first, np.minimum(start + window, asked[document])

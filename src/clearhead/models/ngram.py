"""N-gram models: Markov chains, Kneser-Ney smoothing, skips with a selective mask, and a cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.data.ngrams import MAX_SKIP_VOCABULARY, continuation_counts, count_ngrams, count_skips
from clearhead.errors import DataError, ModelError, SettingsError
from clearhead.layers.attention import Tap
from clearhead.models.anatomy import Anatomy
from clearhead.models.backoff import BackoffChain, BackoffTables, Nodes, Smoothing
from clearhead.models.skips import Recent, SkipConfig, SkipTable
from clearhead.models.word_cache import CacheConfig, WordCache
from clearhead.text.tokenizer import PAD, Tokenizer

MAX_ORDER = 6
# Positions that are scored at once, where each needs the words before it.
CHUNK = 1 << 16
# The probability of what cannot follow, in logits: its logarithm is a number, unlike that of 0.
IMPOSSIBLE = 1e-300
# Larger transition matrices are not written out.
MAX_CELLS = 1 << 24


class NgramConfig(Settings):
    """The settings of an n-gram model. Order 2 without smoothing is a Markov chain of the first order."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(default=5, ge=1, le=MAX_ORDER)
    """The number of words in an n-gram: each is predicted from the order - 1 words before it."""
    smoothing: Smoothing = "kneser-ney"
    """kneser-ney: interpolated with lower orders, modified discounts. none: relative frequencies."""
    skips: SkipConfig | None = None
    cache: CacheConfig | None = None


class NgramState:
    """The n-grams that each row ends with, and its last tokens, where skips or a cache look at them."""

    def __init__(self, nodes: Nodes, recent: Recent):
        self.nodes, self.recent = nodes, recent

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        self.nodes, self.recent = self.nodes[rows], self.recent[rows]


@dataclass(frozen=True)
class TransitionMatrix:
    """One row of probabilities per context: a one-hot vector times the matrix is a row of it."""

    contexts: list[tuple[int, ...]]
    """The words of each context, in order; of a skip, the earlier word and the most recent one."""
    matrix: Float[Tensor, "contexts vocabulary"]

    def one_hot(self, *contexts: tuple[int, ...]) -> Float[Tensor, " contexts"]:
        """The activity of each context: 1 for the given ones, 0 for all others."""
        return torch.tensor([float(one in contexts) for one in self.contexts], dtype=torch.double)


class Ngram(nn.Module):
    """Counts of n-grams, and the probabilities that follow from them."""

    Config = NgramConfig
    Processor = Tokenizer

    def __init__(self, config: NgramConfig, vocabulary: int):
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.tap: Tap | None = None
        self.tapped = {"orders": config.order + 1}
        """What a pass shows to the tap beside the logits, and how many numbers each has per position."""
        if config.skips and vocabulary > MAX_SKIP_VOCABULARY:
            raise SettingsError(
                f"model.skips: a vocabulary of {vocabulary:,} exceeds {MAX_SKIP_VOCABULARY:,}; "
                "lower tokenizer.vocabulary"
            )
        self.backoff = BackoffTables(config.order, vocabulary, config.smoothing)
        self.skips = SkipTable(config.skips, vocabulary, config.smoothing) if config.skips else None
        self.cache = WordCache(config.cache) if config.cache else None

    @classmethod
    def build(cls, config: NgramConfig, processor: Tokenizer) -> "Ngram":
        """A model for the tokenizer's vocabulary that has counted nothing yet."""
        return cls(config, processor.size)

    def anatomy(self) -> Anatomy:
        return Anatomy(embeddings={"text": ""}, stacks=(), attentions=())

    @property
    def device(self) -> torch.device:
        return self.backoff.uniform.device

    def count(self, text: NDArray[np.integer[Any]]) -> None:
        """Counts a text: <s>, the tokens of a sentence, </s>, <s>, …"""
        config = self.config
        counts = count_ngrams(text, config.order, self.vocabulary)
        for number, table in enumerate(counts, start=1):
            if not len(table.keys):
                raise DataError(
                    f"model.order {config.order}: no sentence has {number} tokens, <s> and </s> included; "
                    "lower it"
                )
        if config.smoothing == "kneser-ney":
            counts = continuation_counts(counts, self.vocabulary)
        for table, found in zip(self.backoff.tables, counts, strict=True):
            table.fill(found)
        if self.skips:
            found = count_skips(text, self.skips.config.reach, self.vocabulary)
            if not len(found.keys):
                raise DataError("no sentence has two words, so there is nothing to skip; drop model.skips")
            self.skips.fill(found)
        self._derive("model")

    def take_weights(self, values: Mapping[str, Tensor], location: str) -> None:
        """Takes the tables of a file, which are as large as the training text made them."""
        held = self.state_dict()
        for name, tensor in held.items():
            if name not in values:
                raise ModelError(f"{location}: has no {name}; it belongs to another model than config.toml")
            if values[name].dtype != tensor.dtype or values[name].ndim != 1:
                raise ModelError(f"{location}: {name} is not a list of integers; copy it again")
        if extra := sorted(values.keys() - held.keys()):
            raise ModelError(f"{location}: {extra[0]} is not part of the model that config.toml describes")
        for name, value in values.items():
            path, _, buffer = name.rpartition(".")
            setattr(self.get_submodule(path), buffer, value)
        if len(self.backoff.tables[0].keys) != self.vocabulary:
            raise ModelError(
                f"{location}: has {len(self.backoff.tables[0].keys):,} words, but the tokenizer "
                f"{self.vocabulary:,}; the files belong to different models"
            )
        self._derive(location)

    def _derive(self, location: str) -> None:
        self.backoff.derive(location)
        if self.skips:
            self.skips.derive(location)
        if self.cache:
            self.cache.check(location)

    def start(self, tokens: Int[Tensor, "rows positions"]) -> NgramState:
        """The state after these tokens; rows may start with padding, which has no influence."""
        rows = len(tokens)
        recent = torch.full((rows, self._span), PAD, dtype=torch.long, device=tokens.device)
        state = NgramState(self.backoff.start(rows), recent)
        for column in tokens.unbind(1):
            self._advance(column, state)
        return state

    def step(self, tokens: Int[Tensor, " rows"], state: NgramState) -> Float[Tensor, "rows vocabulary"]:
        """The log-probabilities of the token after these; advances the state."""
        logits, tap = self._next(tokens, state), self.tap
        return logits if tap is None else tap("logits", logits)

    def _next(self, tokens: Int[Tensor, " rows"], state: NgramState) -> Float[Tensor, "rows vocabulary"]:
        self._advance(tokens, state)
        found = self.backoff.distribution(state.nodes)
        if self.skips:
            found = self.skips.vote(found, state.recent[:, -self.skips.config.reach - 1 :])
        if self.cache:
            found = self.cache.mix(found, state.recent[:, -self.cache.span - 1 :])
        return found.clamp(min=IMPOSSIBLE).log()

    def forward(self, tokens: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows positions vocabulary"]:
        """The log-probabilities of the next token at every position."""
        state, tap = self.start(tokens[:, :0]), self.tap
        logits, orders = [], []
        for column in tokens.unbind(1):
            logits.append(self._next(column, state))
            if tap:
                orders.append(self.backoff.weights(state.nodes))
        if tap is None:
            return torch.stack(logits, 1)
        tap("orders", torch.stack(orders, 1))
        return tap("logits", torch.stack(logits, 1))

    def chain(self, text: Int[Tensor, " positions"]) -> BackoffChain:
        """How the n-grams predict each token of a text, without skips and cache."""
        return self.backoff.chain(text)

    def probabilities(self, text: Int[Tensor, " positions"]) -> Float[Tensor, " positions"]:
        """The probability of each token of a text (<s>, a sentence, </s>, <s>, …), that of <s> being 0.

        The same as that of `step`, but without computing those of all other tokens.
        """
        found = self.without_cache(text)
        return self.cache.score(found, text) if self.cache else found

    def without_cache(self, text: Int[Tensor, " positions"]) -> Float[Tensor, " positions"]:
        """`probabilities` before the cache is mixed in."""
        found = self.chain(text).probabilities[:, -1]
        if self.skips:
            width = self.skips.config.reach + 1
            padded = torch.cat([text.new_full((width,), PAD), text[:-1]])
            windows, skips = padded.unfold(0, width, 1), self.skips
            parts = zip(found.split(CHUNK), windows.split(CHUNK), text.split(CHUNK), strict=True)
            found = torch.cat([skips.score(*part) for part in parts])
        return found

    def transitions(self) -> TransitionMatrix:
        """The rows of all contexts of order - 1 words, or of all features of a model with skips."""
        skips = self.skips
        words = self.backoff.contexts() if skips is None else skips.words()
        if len(words) * self.vocabulary > MAX_CELLS:
            raise SettingsError(
                f"transitions: {len(words):,} contexts of {self.vocabulary:,} words are too many for a matrix"
            )
        lower = self.backoff.distribution(self.start(words if skips is None else words[:, 1:]).nodes)
        matrix = lower if skips is None else skips.matrix(lower)
        return TransitionMatrix([*map(tuple, words.tolist())], matrix)

    def _advance(self, tokens: Int[Tensor, " rows"], state: NgramState) -> None:
        state.nodes = self.backoff.advance(tokens, state.nodes)
        state.recent = torch.cat([state.recent[:, 1:], tokens[:, None]], 1)

    @property
    def _span(self) -> int:
        """How many of the last tokens a state holds."""
        skips = self.skips.config.reach + 1 if self.skips else 1
        return max(skips, self.cache.span + 1 if self.cache else 1)

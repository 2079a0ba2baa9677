"""The decoding states of the models: their caches, which searches reorder with `select`."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.layers.block import Source
from clearhead.layers.cache import Cache, KVCache
from clearhead.layers.mask import Causal, LeftPadding, LengthMask, Mask
from clearhead.layers.recurrent import State as RecurrentState

Rows = Int[Tensor, " rows"]
Vectors = Float[Tensor, "rows width"]


@runtime_checkable
class TextState(Protocol):
    """What a GPT needs of a state to process the next tokens."""

    @property
    def length(self) -> int:
        """The tokens of the longest row, without padding."""
        ...

    @property
    def caches(self) -> Sequence[Cache]: ...
    @property
    def mask(self) -> Mask: ...
    def positions(self, count: int, device: torch.device) -> Int[Tensor, "... positions"]:
        """The positions of the next `count` tokens, counted from the first token of each row."""
        ...


class GPTState:
    """A cache for each block, and the number of padding positions before each row."""

    def __init__(self, layers: int, padding: Rows | None, capacity: int):
        self.caches = [KVCache(capacity) for _ in range(layers)]
        self.padding = padding
        self.shared_padding = 0
        """The padding positions that all rows have."""

    @property
    def cached(self) -> int:
        """The number of cached positions, padding included."""
        return self.caches[0].length

    @property
    def length(self) -> int:
        """The tokens of the longest row, without padding."""
        return self.cached - self.shared_padding

    @property
    def mask(self) -> Mask:
        return Causal() if self.padding is None else LeftPadding(self.padding) & Causal()

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "... positions"]:
        """The positions of the next `count` tokens, counted from the first token of each row."""
        positions = torch.arange(self.cached, self.cached + count, device=device)
        return positions if self.padding is None else (positions - self.padding[:, None]).clamp(min=0)

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; rows may repeat."""
        for cache in self.caches:
            cache.select(rows)
        if self.padding is not None:
            self.padding = self.padding[rows]
            self.shared_padding = int(self.padding.min()) if len(rows) else 0


class SourceState:
    """The source that each row translates."""

    def __init__(self, source: Source, lengths: Rows):
        self.source, self.lengths = source, lengths
        self.sentences = torch.arange(len(lengths), device=lengths.device)

    def select_source(self, rows: Int[Tensor, " chosen"]) -> None:
        sentences = self.sentences[rows]
        # Beams mostly swap rows within their sentence; then the source, the larger part, can stay.
        if torch.equal(sentences, self.sentences):
            return
        self.sentences, self.lengths = sentences, self.lengths[rows]
        selected = [kv.select(rows) for kv in self.source.blocks]
        self.source = Source(selected, LengthMask(self.lengths))


class TranslatorState(SourceState):
    """A cache for each decoder block, and the source."""

    def __init__(self, source: Source, lengths: Rows):
        super().__init__(source, lengths)
        self.caches = [KVCache() for _ in source.blocks]

    @property
    def length(self) -> int:
        """The number of target tokens processed."""
        return self.caches[0].length

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; rows may repeat."""
        for cache in self.caches:
            cache.select(rows)
        self.select_source(rows)


class Seq2SeqState(SourceState):
    """The state of each recurrent layer, the vector that the next step is given, and the source."""

    def __init__(
        self, source: Source, lengths: Rows, layers: Sequence[RecurrentState], given: Vectors | None
    ):
        super().__init__(source, lengths)
        self.layers, self.given = layers, given
        self.length = 0
        """The number of target tokens processed."""

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; rows may repeat."""
        self.layers = [tuple(part.index_select(0, rows) for part in layer) for layer in self.layers]
        self.given = None if self.given is None else self.given.index_select(0, rows)
        self.select_source(rows)

"""The decoding states of the models: their caches, which searches reorder with `select`."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.layers.block import Source
from clearhead.layers.cache import Cache, KVCache, RowMoves
from clearhead.layers.mask import Causal, KeyMask, LeftPadding, Mask
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
        moves = RowMoves(rows)
        for cache in self.caches:
            cache.select(moves)
        if self.padding is not None:
            self.padding = self.padding[rows]
            self.shared_padding = int(self.padding.min()) if len(rows) else 0


@runtime_checkable
class SourceTextState(TextState, Protocol):
    """The state of a decoder with cross-attention, which also has a source."""

    @property
    def source(self) -> Source: ...


class SourceState:
    """The source that each row translates."""

    _rows_per_source = 1
    """How many rows share a row of the source."""

    def __init__(self, source: Source, lengths: Rows):
        self.lengths = lengths
        self.source = Source(source.blocks, self._mask(source), source.shared)
        self.sentences = torch.arange(len(lengths), device=lengths.device)

    def select_source(self, rows: Int[Tensor, " chosen"]) -> None:
        sentences = self.sentences[rows]
        # Beams mostly swap rows within their sentence; then the source, the larger part, can stay.
        if torch.equal(sentences, self.sentences):
            return
        self.sentences = sentences
        if not self.source.shared:
            self._keep(rows)
            return
        # The rows of a sentence are consecutive; if all sentences have equally many, these share the source.
        sources, self._rows_per_source = rows // self._rows_per_source, _rows_per_sentence(sentences)
        kept = sources[:: self._rows_per_source]
        if not torch.equal(kept, torch.arange(len(self.lengths), device=kept.device)):
            self._keep(kept)

    def _keep(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows of the source."""
        self.lengths = self.lengths[rows]
        selected = [kv.select(rows) for kv in self.source.blocks]
        self.source = Source(selected, self._mask(self.source), self.source.shared)

    def _mask(self, source: Source) -> Mask:
        """The mask of the padding, made once for all steps; on a CPU, none if there is no padding."""
        keys = source.blocks[0].keys.shape[2] if source.blocks else 0
        if self.lengths.device.type == "cpu" and bool((self.lengths >= keys).all()):
            return Mask()
        return KeyMask(torch.arange(keys, device=self.lengths.device) < self.lengths[:, None])


def _rows_per_sentence(sentences: Rows) -> int:
    """How many consecutive rows each sentence has, if all have equally many; else 1."""
    starts = (sentences[1:] != sentences[:-1]).sum() + 1 if len(sentences) else 1
    count = max(1, len(sentences) // int(starts))
    return count if torch.equal(sentences, sentences[::count].repeat_interleave(count)) else 1


class TranslatorState(SourceState):
    """A cache for each decoder block, and the source."""

    def __init__(self, source: Source, lengths: Rows):
        super().__init__(source, lengths)
        self.caches = [KVCache() for _ in source.blocks]

    @property
    def length(self) -> int:
        """The number of target tokens processed."""
        return self.caches[0].length

    @property
    def mask(self) -> Mask:
        return Causal()

    def positions(self, count: int, device: torch.device) -> Int[Tensor, " positions"]:
        """The positions of the next `count` tokens."""
        return torch.arange(self.length, self.length + count, device=device)

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps these rows, in this order; rows may repeat."""
        moves = RowMoves(rows)
        for cache in self.caches:
            cache.select(moves)
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

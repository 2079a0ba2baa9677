"""Translators on a GPU: slots for sentences that are decoded together, each with the rows of its beam.

Finished sentences give their slots to new ones, so that steps always have the same shapes and can
be CUDA graphs. The rows of a sentence share its source, and find shared keys in a table of rows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.layers.attention import KeyValues, Lookup
from clearhead.layers.block import Source
from clearhead.layers.cache import SlotKVCache
from clearhead.layers.mask import Mask
from clearhead.models.encoder_decoder import TransformerDecoding
from clearhead.models.state import Rows


class Slots:
    """The state of decoding in slots: fixed tensors that steps change in place."""

    length = 0
    """Always 0: the caller knows that no sentence outgrows its slot."""

    def __init__(self, model: TransformerDecoding, slots: int, beam: int, capacity: int):
        self.slots, self.beam, self.capacity = slots, beam, capacity
        config, like, rows = model.config, model.readout_weight, slots * beam
        heads, device = config.attention.kv_heads or config.attention.heads, like.device
        layers = len(model.decoder.blocks)
        # Inference tensors could not be written to outside of inference mode.
        with torch.inference_mode(False):
            self.lengths = torch.ones(rows, dtype=torch.long, device=device)
            """The target tokens of each row, the one that the next step is given included."""
            self.source_lengths = torch.ones_like(self.lengths)
            self._rows = torch.arange(rows, device=device)
            self.table = self._rows[:, None].repeat(1, capacity)
            shape = (2, layers, rows, heads, capacity, config.head_size)
            keys, values = like.new_zeros(shape)
            self._source_keys, self._source_values = like.new_zeros((*shape[:2], slots, *shape[3:]))
            firsts = torch.zeros_like(self.lengths)
        lookup = Lookup(self.table, firsts, self.lengths)
        self.caches = [SlotKVCache(*pair, lookup) for pair in zip(keys, values, strict=True)]
        sources = (self._rows // beam)[:, None].expand(-1, capacity)
        lookup = Lookup(sources, firsts, self.source_lengths)
        pairs = zip(self._source_keys, self._source_values, strict=True)
        self.source = Source([KeyValues(*pair, lookup=lookup) for pair in pairs], Mask())

    @property
    def mask(self) -> Mask:
        return Mask()

    def positions(self, count: int, device: torch.device) -> Int[Tensor, "rows 1"]:
        """The position of the next token of each row."""
        return (self.lengths - 1)[:, None]

    def fill(
        self, slots: Int[Tensor, " filled"], blocks: Sequence[KeyValues], lengths: Int[Tensor, " filled"]
    ) -> None:
        """Puts new sources into these slots, whose next token is their first."""
        width = blocks[0].keys.shape[2]
        for number, kv in enumerate(blocks):
            self._source_keys[number, :, :, :width].index_copy_(0, slots, kv.keys)
            self._source_values[number, :, :, :width].index_copy_(0, slots, kv.values)
        rows = (slots[:, None] * self.beam + self._rows[: self.beam]).flatten()
        # Plain assignments would copy numbers from the host, which a graph cannot.
        self.source_lengths.index_copy_(0, rows, lengths.repeat_interleave(self.beam, output_size=len(rows)))
        self.lengths.index_fill_(0, rows, 1)
        self.table[:, 0].index_copy_(0, rows, rows)

    def advance(self, parents: Rows, running: Bool[Tensor, " slots"]) -> None:
        """Each row continues its parent; the rows of running slots are given one more token."""
        self.table.copy_(self.table.index_select(0, parents))
        self.lengths.view(self.slots, self.beam).add_(running[:, None])
        self.table.scatter_(1, (self.lengths - 1)[:, None], self._rows[:, None])


class SlotEngine:
    """The `start` and `step` of a model, with searches to reuse."""

    def __init__(self, model: TransformerDecoding):
        self.model, self.config, self.readout_weight = model, model.config, model.readout_weight
        self.kept: dict[Any, Any] = {}
        """Searches of earlier texts, by size."""

    def start(self, *inputs: Any) -> Any:
        return self.model.start(*inputs)

    def step(self, tokens: Rows, state: Any) -> Float[Tensor, "rows vocabulary"]:
        return self.model.step(tokens, state)

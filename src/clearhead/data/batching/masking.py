"""Batches of masked text: several documents per row, a fixed share of their tokens hidden."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Self

import numpy as np
import torch
from jaxtyping import Int
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from clearhead.config import Settings
from clearhead.data.batch import IGNORE_INDEX, Plane, TensorBatch, TextBatch, packed_cells
from clearhead.data.batching.crops import Spans, TextBatches, TextBatchingConfig, cut_spans, pack_spans
from clearhead.data.batching.packing import Packing, divide
from clearhead.data.batching.plan import SINGLE, Share, whole_steps
from clearhead.data.delimited import DelimitedDocuments
from clearhead.text.tokenizer import PAD, Tokenizer

Plan = tuple[int, Packing, Spans]
"""The number of a batch in its epoch, its rows, and the spans that these hold."""
Part = Annotated[float, Field(ge=0, le=1)]


class MaskingConfig(Settings):
    """Which tokens are hidden, and what replaces them.

    By default all of them become the mask token. BERT has share 0.15, random 0.1 and kept 0.1 (Devlin et al.
    2019); Wettig et al. 2023 call both into question.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the tokens that are predicted."""
    random: Part = 0.0
    """Share of these that become a random token."""
    kept: Part = 0.0
    """Share of these that stay as they are."""
    causal: Part = 0.0
    """Share of the batches without masks, in which each token is predicted from those before it, as in a
    language model (Charpentier and Samuel 2024); needs model.head.predict_from = "previous"."""

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.random + self.kept > 1:
            raise ValueError(f"random {self.random} and kept {self.kept} add up to more than 1; lower one")
        return self


@dataclass(frozen=True)
class MaskedBatch(TensorBatch):
    """Several spans of documents per row, numbered from 1 (padding has number 0), some tokens hidden.

    Every row has the same number of slots for hidden tokens; those it does not need have the label
    IGNORE_INDEX, so that all batches have one shape.
    """

    static_shape = True
    cells: Int[Tensor, "3 rows positions"] = field(metadata={"batch_axis": 1})
    hidden: Int[Tensor, "2 rows hidden"] = field(metadata={"batch_axis": 1})

    inputs = Plane(0)
    segments = Plane(1)
    positions = Plane(2)

    @property
    def columns(self) -> Int[Tensor, "rows hidden"]:
        """Where in its row each hidden token is."""
        return self.hidden[0]

    @property
    def labels(self) -> Int[Tensor, "rows hidden"]:
        """The hidden tokens."""
        return self.hidden[1]

    def count_tokens(self) -> int:
        return int((self.labels != IGNORE_INDEX).sum())

    def padding_share(self) -> float:
        return 1 - int((self.segments > 0).sum()) / self.inputs.numel()


@dataclass(frozen=True, eq=False)
class Masking:
    """Hides tokens at random; special tokens are never hidden."""

    config: MaskingConfig
    mask: int
    maskable: NDArray[np.bool_]
    """For each id of the vocabulary, whether it may be hidden."""

    @classmethod
    def of(cls, config: MaskingConfig, tokenizer: Tokenizer) -> "Masking":
        assert tokenizer.mask_id is not None
        maskable = np.ones(tokenizer.size, dtype=np.bool_)
        maskable[: len(tokenizer.special_tokens)] = False
        special = (tokenizer.mask_id, tokenizer.bos_id, *tokenizer.eos_ids)
        maskable[[number for number in special if number is not None]] = False
        return cls(config, tokenizer.mask_id, maskable)

    def hide(self, ids: NDArray[np.int32], inside: NDArray[np.bool_], random: Generator) -> NDArray[np.int32]:
        """Hides tokens of rows in place, of those `inside`; returns their columns and what they were."""
        slots = max(1, round(self.config.share * ids.shape[1]))
        inside = inside & self.maskable[ids]
        order = random.random(ids.shape, dtype=np.float32)
        order[~inside] = 2
        columns = np.argpartition(order, slots - 1, axis=1)[:, :slots]
        among = np.argsort(np.take_along_axis(order, columns, 1), axis=1)
        columns = np.take_along_axis(columns, among, 1)
        available = inside.sum(1)
        counts = np.maximum(np.rint(self.config.share * available), np.minimum(available, 1))
        hidden = np.arange(slots) < counts[:, None]
        labels = np.take_along_axis(ids, columns, 1)
        np.put_along_axis(ids, columns, np.where(hidden, self._replacements(labels, random), labels), 1)
        return np.stack([columns, np.where(hidden, labels, IGNORE_INDEX)]).astype(np.int32)

    def _replacements(self, tokens: NDArray[np.int32], random: Generator) -> NDArray[np.int32]:
        config = self.config
        if not config.random and not config.kept:
            return np.full_like(tokens, self.mask)
        choice = random.random(tokens.shape)
        others = np.flatnonzero(self.maskable)[random.integers(self.maskable.sum(), size=tokens.shape)]
        changed = np.where(choice < config.random, others, self.mask)
        return np.where(choice >= 1 - config.kept, tokens, changed).astype(np.int32)


class MaskedTexts(TextBatches[Plan, MaskedBatch | TextBatch]):
    """Several documents per row, as in `PackedTexts`; every epoch hides other tokens.

    What is hidden depends on the seed, the epoch and the number of the batch alone.
    """

    def __init__(
        self,
        documents: DelimitedDocuments,
        config: TextBatchingConfig,
        masking: Masking,
        seed: int = 0,
        share: Share = SINGLE,
    ):
        super().__init__(documents, config, seed, share)
        self.masking = masking

    def plan(self, epoch: int) -> Iterator[Plan]:
        random = self.random(epoch)
        spans = cut_spans(self.documents.lengths, self.config.row, random)
        packings = pack_spans(spans[random.permutation(len(spans))], self.config, random)
        steps = whole_steps(packings, self.share.batches_per_step, divide)
        return ((number, *plan) for number, plan in enumerate(steps))

    def build(self, epoch: int, plan: Plan) -> MaskedBatch | TextBatch:
        # Causal batches are spread evenly over an epoch, from a random one on: an epoch may be a few batches.
        before = self.random(epoch).random() + plan[0] * self.masking.config.causal
        is_causal = int(before + self.masking.config.causal) > int(before)
        return self._causal(plan) if is_causal else self._masked(epoch, plan)

    def sequential(self) -> Iterator[MaskedBatch]:
        """All text once, in order, with the same tokens hidden each time."""
        spans = cut_spans(self.documents.lengths, self.config.row, None)
        packings = pack_spans(spans, self.config, np.random.default_rng(0))
        return (self._masked(0, (number, *plan)) for number, plan in enumerate(packings))

    def _masked(self, epoch: int, plan: Plan) -> MaskedBatch:
        number, packing, spans = plan
        chosen, rows = packing.by_row()
        document, start, lengths = spans[chosen].T
        cells = np.zeros((3, packing.count, packing.row_length), dtype=np.int32)
        cells[0] = PAD
        flat = cells.reshape(3, -1)
        cell, segment, within = packed_cells(lengths, rows, packing.row_length)
        position = np.repeat(start, lengths) + within
        flat[0, cell] = self.documents.tokens(np.repeat(document, lengths), position)
        flat[1, cell], flat[2, cell] = segment, within
        # The first token of a span follows none that could predict it.
        random = np.random.default_rng((self.seed, epoch, number))
        hidden = self.masking.hide(cells[0], cells[2] > 0, random)
        return MaskedBatch(torch.from_numpy(cells), torch.from_numpy(hidden))

    def _causal(self, plan: Plan) -> TextBatch:
        _, packing, spans = plan
        chosen, rows = packing.by_row()
        spans = spans[chosen]
        # The last token of a document is a label only.
        ends = spans[:, 1] + spans[:, 2] == self.documents.lengths[spans[:, 0]]
        spans = np.stack([spans[:, 0], spans[:, 1], spans[:, 2] - ends], axis=1)
        kept = spans[:, 2] > 0
        return TextBatch.pack(self.documents, spans[kept], rows[kept], packing.count, packing.row_length)

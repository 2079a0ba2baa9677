"""What a model in training is asked to lower, whatever way its batches are laid out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.data.text_batch import IGNORED, CropBatch, TextBatch
from clearhead.layers.layout import Documents, Layout, Packed, Padded, Plain, TextLayout
from clearhead.models import GPT, Translator
from clearhead.text.tokenizer import PAD
from clearhead.training import Criterion, RDropConfig, Readout, SimCutConfig, chunked_cross_entropy

Batch = PairBatch | PackedBatch


def layout(batch: Batch, times: int = 1) -> Layout:
    """How the sentences of a batch lie in its rows; all of them once, or several times below each other."""

    def repeated(tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * times) if times > 1 else tensor

    if isinstance(batch, PairBatch):
        return Padded(repeated(batch.source_lengths))
    return Packed(
        repeated(batch.source_segments),
        repeated(batch.source_positions),
        repeated(batch.target_segments),
        repeated(batch.target_positions),
    )


def translation_loss(model: Translator, batch: Batch, label_smoothing: float) -> Tensor:
    """The summed cross-entropy of a batch."""
    return TranslationLoss(Criterion(label_smoothing))(model, batch)


@dataclass(frozen=True, eq=False)
class TranslationLoss:
    """The summed loss of a batch by a criterion, which may compare two views of each sentence.

    Both views are rows of one batch, so they cost one pass over twice as many. Words with an id below
    `first_word` are signs and tags, which are never cut. A teacher sees all words, and does not learn.
    """

    criterion: Criterion
    first_word: int = 0
    teacher: Translator | None = None

    def __call__(self, model: Translator, batch: Batch) -> Tensor:
        views = self.criterion.views
        source, inputs = self._views(batch.source), self._views(batch.inputs)
        states = model.states(source, layout(batch, views), inputs)
        states = states.unflatten(0, (views, -1))
        return chunked_cross_entropy(
            states, model.readout_weight, batch.labels, self.criterion, teacher=self._taught(batch)
        )

    @torch.no_grad()
    def _taught(self, batch: Batch) -> Readout | None:
        if self.teacher is None:
            return None
        states = self.teacher.states(batch.source, layout(batch), batch.inputs)
        return Readout(states, self.teacher.readout_weight)

    def _views(self, words: Tensor) -> Tensor:
        """Words as each view shows them, below each other."""
        match self.criterion.regulariser:
            case None:
                return words
            case RDropConfig():
                return torch.cat([words, words])
            case SimCutConfig(cut=share):
                return torch.cat([words, self._cut(words, share)])

    def _cut(self, words: Tensor, share: float) -> Tensor:
        """Padding in the place of some words: a vector that says nothing but where it stands."""
        chosen = torch.rand(words.shape, device=words.device) < share
        return words.masked_fill(chosen & (words >= self.first_word), PAD)


def text_layout(batch: TextBatch | CropBatch) -> TextLayout:
    """How the documents of a batch lie in its rows."""
    return Documents(batch.documents, batch.positions) if isinstance(batch, TextBatch) else Plain()


@dataclass(frozen=True, eq=False)
class TextLoss:
    """The summed loss of a language model over the words of a batch that are to be learned."""

    criterion: Criterion

    @classmethod
    def of(cls, label_smoothing: float = 0.0) -> "TextLoss":
        return cls(Criterion(label_smoothing, ignore_index=IGNORED))

    def __call__(self, model: GPT, batch: TextBatch | CropBatch) -> Tensor:
        states = model.states(batch.inputs, text_layout(batch))
        return chunked_cross_entropy(states[None], model.readout_weight, batch.labels, self.criterion)

"""What a translator in training is asked to lower, whatever way its batches are laid out."""

from torch import Tensor

from clearhead.data.batch import PackedBatch, PairBatch
from clearhead.layers.layout import Layout, Packed, Padded
from clearhead.models import Translator
from clearhead.training import smoothed_loss

Batch = PairBatch | PackedBatch


def layout(batch: Batch) -> Layout:
    """How the sentences of a batch lie in its rows."""
    if isinstance(batch, PairBatch):
        return Padded(batch.source_lengths)
    return Packed(batch.source_sentences, batch.source_places, batch.target_sentences, batch.target_places)


def translation_loss(model: Translator, batch: Batch, smoothing: float) -> Tensor:
    """The summed loss of a batch."""
    states = model.states(batch.source, layout(batch), batch.inputs)
    return smoothed_loss(states, model.readout_weight, batch.labels, smoothing)

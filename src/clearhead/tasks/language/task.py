"""The language-modelling task: its loss, data, validation and model card."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from math import log

import torch
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.batch import IGNORE_INDEX, CropBatch, TextBatch
from clearhead.data.batching.crops import Crops, PackedTexts
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.store import TextStore
from clearhead.evaluation.metric import BITS_PER_BYTE, LOSS
from clearhead.layers.layout import Documents, Plain, TextLayout
from clearhead.models import GPT
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.language.data import Instructions, TextCorpus, corpus_of, learn_text_tokenizer
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.language.recipe import VALIDATION, LanguageRecipe
from clearhead.tasks.language.text_task import Store, TextTask
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import Criterion, chunked_cross_entropy
from clearhead.wording import counted

Batch = TextBatch | CropBatch


def language_loss(model: GPT, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the next token, summed over the labelled tokens of a batch."""
    states = model.states(batch.inputs, layout(batch))
    criterion = Criterion(label_smoothing, ignore_index=IGNORE_INDEX)
    return chunked_cross_entropy(states[None], model.readout_weight, batch.labels, criterion)


def layout(batch: Batch) -> TextLayout:
    """The layout of the documents in the rows of a batch."""
    return Documents(batch.documents, batch.positions) if isinstance(batch, TextBatch) else Plain()


class LanguageTask(TextTask):
    """Trains a GPT on running text, or on prompts with answers."""

    Recipe = LanguageRecipe
    metrics = (LOSS, BITS_PER_BYTE)
    test_option = " --text FILE"
    does = "continues text"
    command = "clearhead generate"
    recipe: LanguageRecipe
    processor: Tokenizer

    def read_corpus(self) -> TextCorpus | Instructions:
        return corpus_of(self.recipe.data, self.recipe.training.seed)

    def make_processor(self, inherited: Tokenizer | None) -> Tokenizer:
        return inherited or learn_text_tokenizer(self.corpus, self.recipe.tokenizer)

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> Crops | PackedTexts:
        return self._batches(self.store, Share(rank, ranks, batches_per_step))

    def loss(self, model: GPT, batch: Batch) -> Tensor:
        return language_loss(model, batch, self.recipe.training.label_smoothing)

    @torch.no_grad()
    def validate(self, model: GPT, autocast: AbstractContextManager) -> dict[str, float]:
        """Loss per token over all held-out text; of running text, also bits per byte."""
        store = self.validation
        if store is None:
            return {}
        model.eval()
        total, tokens = 0.0, 0
        for batch in self._batches(store).sequential():
            with autocast:
                found = language_loss(model, batch.to(model.readout_weight.device))
            total, tokens = total + found.item(), tokens + batch.tokens
        mean = total / tokens
        if not isinstance(store, TextStore):
            return {"loss": mean}
        return {"loss": mean, "bits_per_byte": mean / log(2) / (store.meta["bytes"] / store.tokens)}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        recipe, config = self.recipe, self.recipe.model
        parameters = parameter_count(model)
        held_out = recipe.data.holds_out and not recipe.data.validation
        return card(
            title="A language model",
            about=f"Trained with clearhead: {parameters:,} parameters, width "
            f"{config.width}, {counted(config.layers, 'layer')}, {counted(config.attention.heads, 'head')}, "
            f"a context of {config.context_length} tokens, {recipe.tokenizer.kind} vocabulary; "
            f"{counted(step, 'training step')}.",
            use=[
                "clearhead generate 'Once upon a time' --model THIS-FOLDER",
                "clearhead evaluate THIS-FOLDER",
            ],
            data=[data_line(file) for file in recipe.data.train],
            held_out=f"`{VALIDATION}` was held out from training." if held_out else "",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> LanguageModel:
        return LanguageModel.from_checkpoint(checkpoint)

    def _batches(self, store: Store, share: Share = SINGLE) -> Crops | PackedTexts:
        crops = self.recipe.batches.kind == "crops"
        start, end = self.processor.bos_id, self.processor.eos_id
        # A single text needs no special tokens around it.
        single = crops and len(self.store) == 1
        delimiters = None if single or start is None or end is None else (start, end)
        documents = DelimitedDocuments(store, delimiters)
        kind = Crops if crops else PackedTexts
        return kind(documents, self.recipe.batches, self.recipe.training.seed, share)

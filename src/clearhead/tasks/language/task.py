"""The language-modelling task: its loss, data, validation and model card."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from math import log
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.batch import IGNORE_INDEX, CropBatch, TextBatch
from clearhead.data.batching.crops import Crops, PackedTexts
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.progress import track_progress
from clearhead.data.sources.documents import check_texts
from clearhead.data.store import PairStore, TextStore
from clearhead.evaluation.metric import BITS_PER_BYTE, LOSS
from clearhead.layers.layout import Documents, Plain, TextLayout
from clearhead.models import GPT
from clearhead.tasks.card import card, data_line
from clearhead.tasks.events import Note
from clearhead.tasks.language.data import Part, corpus_of, counted, learn_text_tokenizer, write_held_out
from clearhead.tasks.language.model import LanguageModel
from clearhead.tasks.language.recipe import VALIDATION, LanguageRecipe
from clearhead.tasks.task import RunContext, Task
from clearhead.text.tokenizer import UNK, Tokenizer
from clearhead.training import Criterion, chunked_cross_entropy

Batch = TextBatch | CropBatch
Store = TextStore | PairStore


def language_loss(model: GPT, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the next token, summed over the labelled tokens of a batch."""
    states = model.states(batch.inputs, layout(batch))
    criterion = Criterion(label_smoothing, ignore_index=IGNORE_INDEX)
    return chunked_cross_entropy(states[None], model.readout_weight, batch.labels, criterion)


def layout(batch: Batch) -> TextLayout:
    """The layout of the documents in the rows of a batch."""
    return Documents(batch.documents, batch.positions) if isinstance(batch, TextBatch) else Plain()


class LanguageTask(Task):
    """Trains a GPT on running text, or on prompts with answers."""

    Recipe = LanguageRecipe
    metrics = (LOSS, BITS_PER_BYTE)
    does = "continues text"
    command = "clearhead generate"
    recipe: LanguageRecipe
    processor: Tokenizer

    def prepare(self, context: RunContext) -> Iterator[Note]:
        recipe, data = self.recipe, self.recipe.data
        check_texts(data.paths)
        self.corpus = corpus = corpus_of(data, recipe.training.seed)
        example = corpus.example()
        yield Note(f"for example: {example if len(example) <= 80 else f'{example[:79]}…'}")
        inherited = None
        if context.ranks.first(lambda: not (context.out / Tokenizer.FILE).exists()):
            inherited = recipe.inherited_tokenizer()
            yield Note("reusing the tokenizer …" if inherited else "training the tokenizer …")
            if not data.validation:
                with track_progress(corpus.paths(), context.progress):
                    context.ranks.first(lambda: bool(corpus.split))  # reads all files
        self.processor = context.processor(
            Tokenizer, lambda: inherited or learn_text_tokenizer(corpus, recipe.tokenizer)
        )
        yield Note(f"tokenizer: {self.processor.size:,} tokens ({recipe.tokenizer.kind})")

        yield Note("reading and tokenising the text …")
        # Rank 0 writes the store, the other ranks open it; each further machine writes its own.
        with track_progress(corpus.paths(), context.progress):
            context.ranks.first(lambda: len(self._store("train")))
            self.store = self._store("train")
        yield Note(self._about(self.store))
        self.data_fingerprint = self.store.meta["content"]["files"]
        held_out = context.ranks.first(lambda: self._hold_out(context.out))
        self.validation = self._store("validation") if held_out else None

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
        parameters = sum(parameter.numel() for parameter in model.parameters())
        held_out = recipe.data.holds_out and not recipe.data.validation
        return card(
            title="A language model",
            about=f"Trained with clearhead: {parameters:,} parameters, width "
            f"{config.width}, {config.layers} layers, {config.attention.heads} heads, a context of "
            f"{config.context_length} tokens, {recipe.tokenizer.kind} vocabulary; {step:,} training steps.",
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

    def _store(self, part: Part) -> Store:
        return self.corpus.store(part, self.processor, self.recipe.batches.row)

    def _batches(self, store: Store, share: Share = SINGLE) -> Crops | PackedTexts:
        crops = self.recipe.batches.kind == "crops"
        start, end = self.processor.bos_id, self.processor.eos_id
        # A single text needs no special tokens around it.
        single = crops and len(self.store) == 1
        delimiters = None if single or start is None or end is None else (start, end)
        documents = DelimitedDocuments(store, delimiters)
        kind = Crops if crops else PackedTexts
        return kind(documents, self.recipe.batches, self.recipe.training.seed, share)

    def _about(self, store: Store) -> str:
        if isinstance(store, PairStore):
            left_out = store.meta["pairs"] - len(store) + store.meta["too_long"]
            too_long = f"; {left_out:,} exceed the context and are left out" if left_out else ""
            return f"prompts with answers to train on: {len(store):,}{too_long}{self._unknown(store)}"
        characters, documents = store.meta["characters"], counted(len(store), "document")
        size = f"{characters:,} characters in {documents}, {store.tokens:,} tokens"
        return f"text to train on: {size}{self._unknown(store)}"

    def _unknown(self, store: Store) -> str:
        """A note on characters that are missing from an inherited vocabulary."""
        start = self.recipe.training.init_from
        if not start or self.recipe.tokenizer.kind != "character":
            return ""
        sides = (store.source, store.target) if isinstance(store, PairStore) else (store.documents,)
        unknown = sum(int((side.ids == UNK).sum()) for side in sides)
        return f"; {unknown:,} characters are not in the vocabulary of {start}" if unknown else ""

    def _hold_out(self, out: Path) -> bool:
        """Whether there is validation text; writes the held-out part of the training text to the folder."""
        data = self.recipe.data
        if not data.holds_out:
            return False
        self._store("validation")
        write_held_out(self.corpus, out)
        return True

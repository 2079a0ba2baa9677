"""The classification task: its loss, data, validation and model card."""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from time import perf_counter, process_time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.bags import BagVocabulary
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.progress import track_progress
from clearhead.data.sources.examples import Example, check_examples, examples_hash
from clearhead.evaluation.classification import Confusion
from clearhead.evaluation.metric import ACCURACY, LOSS, MACRO_F1
from clearhead.models import Bag, BiLSTM, Encoder
from clearhead.models.bag import CountedTexts, calibrated_temperature
from clearhead.tasks.card import card, data_line
from clearhead.tasks.classification.data import LabelledBatch, LabelledBatches, LabelledTexts, encode
from clearhead.tasks.classification.model import ClassificationModel
from clearhead.tasks.classification.recipe import VALIDATION, ClassificationRecipe
from clearhead.tasks.events import Event, Finished, Note, Validation
from clearhead.tasks.records import write_named
from clearhead.tasks.task import ONE_STEP, RunContext, Task, publish
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

SHOWN_LABELS = 8


class ClassificationTask(Task):
    """Trains a classifier of texts: a sequence model by gradient descent, a bag by a linear solver."""

    Recipe = ClassificationRecipe
    metrics = (LOSS, MACRO_F1, ACCURACY)
    does = "classifies text"
    command = "clearhead classify"
    recipe: ClassificationRecipe

    def prepare(self, context: RunContext) -> Iterator[Note]:
        data = self.recipe.data
        check_examples(data.paths)
        yield Note("reading the texts …")
        with track_progress(map(Path, data.train), context.progress):
            self.texts = texts = LabelledTexts.read(data, self.recipe.training.seed)
        self.data_fingerprint = [examples_hash(path) for path in [*data.train, *data.validation]]
        yield Note(self._about())
        if texts.validation and not data.validation:
            context.ranks.first(lambda: self._write_held_out(context))
        if self.recipe.is_bag:
            yield Note("counting n-grams …")
            self.processor = context.processor(BagVocabulary, lambda: self.counted.vocabulary)
            return
        tokenizer = self.recipe.tokenizer
        assert tokenizer is not None
        self.processor = context.processor(TextProcessor, lambda: self._learn_processor(tokenizer))
        yield Note(f"tokenizer: {self.processor.size:,} tokens ({tokenizer.kind})")

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> LabelledBatches:
        return self._batches(self.texts.train, Share(rank, ranks, batches_per_step))

    def loss(self, model: BiLSTM | Encoder, batch: LabelledBatch) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        logits = model(batch.ids, batch.lengths)
        return F.cross_entropy(logits, batch.classes, reduction="sum", label_smoothing=smoothing)

    @torch.no_grad()
    def validate(self, model: BiLSTM | Encoder, autocast: AbstractContextManager) -> dict[str, float]:
        if not self.texts.validation:
            return {}
        model.eval()
        batches, device = self._validation, next(model.parameters()).device
        logits = torch.empty(len(batches.texts), len(self.texts.labels))
        for rows in batches.sequential():
            batch = batches.build(0, rows).to(device)
            with autocast:
                logits[torch.from_numpy(rows)] = model(batch.ids, batch.lengths).float().cpu()
        return self._scores(logits)

    def fit(self, context: RunContext) -> Generator[Event, None, Finished]:
        """By gradient descent, or for a bag of words by a linear solver."""
        if self.recipe.is_bag:
            return (yield from self._fit_bag(context))
        return (yield from super().fit(context))

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        data, labels = self.recipe.data, self.texts.labels
        parameters = sum(parameter.numel() for parameter in model.parameters())
        steps = "" if self.recipe.is_bag else f"; {step:,} training steps"
        return card(
            title=f"A classifier of texts with {len(labels)} labels",
            about=f"Trained with clearhead: a model of kind {self.recipe.model.kind} with {parameters:,} "
            f"parameters on {len(self.texts.train):,} texts{steps}. Labels: {_listed(labels)}.",
            use=["clearhead classify 'A text' --model THIS-FOLDER", "clearhead evaluate THIS-FOLDER"],
            data=[data_line(file) for file in data.train],
            held_out="" if data.validation or not data.holds_out else f"`{VALIDATION}` was held out.",
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> ClassificationModel:
        return ClassificationModel.from_checkpoint(checkpoint)

    @cached_property
    def counted(self) -> CountedTexts:
        """The training texts as bags."""
        texts = [example.text for example in self.texts.train]
        return CountedTexts.of(texts, self.texts.labels, self.recipe.model)  # pyright: ignore[reportArgumentType]

    def _fit_bag(self, context: RunContext) -> Generator[Event, None, Finished]:
        """Fits a bag to all texts at once; rank 0 does it, since one step leaves nothing to share."""
        config, started = self.recipe.model, process_time()
        yield Note(f"fitting weights for {self.processor.ngrams:,} n-grams …")

        def fit() -> tuple[bool, dict[str, float], float]:
            classes, seed = self.texts.classes(self.texts.train), self.recipe.training.seed
            model, converged = Bag.fit(config, self.counted, classes, seed)  # pyright: ignore[reportArgumentType]
            start = perf_counter()
            scores = self._calibrate(model)
            seconds = perf_counter() - start
            publish(self, model, scores, context.out)
            return converged, scores, seconds

        converged, scores, seconds = context.ranks.first(fit)
        if not converged:
            yield Note("the solver did not converge; a lower model.C may help")
        if scores:
            yield Validation(ONE_STEP, scores, True, seconds, self.metrics)
        yield Note(f"fitted in {process_time() - started:.1f} CPU-seconds")
        return Finished(context.out, ONE_STEP, False, "the weights are fitted")

    @torch.no_grad()
    def _calibrate(self, model: Bag) -> dict[str, float]:
        """Sets the temperature of a bag by the held-out texts, and returns its scores on them."""
        held_out = self.texts.validation
        if not held_out:
            return {}
        logits = model(self.processor.encode(example.text for example in held_out))
        model.temperature.fill_(calibrated_temperature(logits, self.texts.classes(held_out)))
        return self._scores(logits / model.temperature)

    def _scores(self, logits: Tensor) -> dict[str, float]:
        classes = torch.from_numpy(self.texts.classes(self.texts.validation))
        predicted = logits.argmax(-1).tolist()
        confusion = Confusion.of(classes.tolist(), predicted, len(self.texts.labels))
        loss = float(F.cross_entropy(logits, classes))
        return {"loss": loss, "macro_f1": confusion.macro_f1, "accuracy": confusion.accuracy}

    def _learn_processor(self, config: TokenizerConfig) -> TextProcessor:
        tokenizer = self.recipe.inherited_tokenizer()
        texts = (example.text for example in self.texts.train)
        return TextProcessor(tokenizer or Tokenizer.train(texts, config), self.texts.labels)

    def _batches(self, texts: Sequence[Example], share: Share) -> LabelledBatches:
        config, recipe = self.recipe.model, self.recipe
        sequences = encode((example.text for example in texts), self.processor, config.max_length)  # pyright: ignore[reportAttributeAccessIssue]
        assert recipe.batches is not None
        return LabelledBatches(
            sequences, self.texts.classes(texts), recipe.batches, recipe.training.seed, share
        )

    @cached_property
    def _validation(self) -> LabelledBatches:
        return self._batches(self.texts.validation, SINGLE)

    def _write_held_out(self, context: RunContext) -> None:
        path = context.out / VALIDATION
        if not path.exists():
            lines = (json.dumps(example._asdict(), ensure_ascii=False) for example in self.texts.validation)
            write_named(path, "".join(f"{line}\n" for line in lines))

    def _about(self) -> str:
        texts = self.texts
        blank = f"; {texts.blank:,} without words or a label are left out" if texts.blank else ""
        return (
            f"texts to train on: {len(texts.train):,}, {len(texts.validation):,} for validation; "
            f"{len(texts.labels)} labels: {_listed(texts.labels)}{blank}"
        )


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - SHOWN_LABELS} more" if len(labels) > SHOWN_LABELS else ""
    return ", ".join(labels[:SHOWN_LABELS]) + more

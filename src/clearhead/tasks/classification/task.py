"""The classification task: its loss, data, validation and model card."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from time import perf_counter, process_time

import torch
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.bags import BagVocabulary
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.progress import track_progress
from clearhead.data.sources.examples import Example, check_examples, examples_hash
from clearhead.errors import DataError
from clearhead.evaluation.classification import Confusion, LabelSets
from clearhead.evaluation.metric import ACCURACY, LOSS, MACRO_F1
from clearhead.models import Bag, BiLSTM, Encoder
from clearhead.models.bag import CountedTexts, calibrated_temperature
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.classification.data import (
    LabelledBatch,
    LabelledBatches,
    LabelledTexts,
    class_numbers,
    encode,
)
from clearhead.tasks.classification.loss import ClassificationLoss
from clearhead.tasks.classification.model import ClassificationModel
from clearhead.tasks.classification.recipe import VALIDATION, ClassificationRecipe
from clearhead.tasks.events import Event, Finished, Note, Validation
from clearhead.tasks.records import write_examples
from clearhead.tasks.task import ONE_STEP, RunContext, Task, publish
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.wording import counted, label_list


class ClassificationTask(Task):
    """Trains a classifier of texts: a sequence model by gradient descent, a bag by a linear solver."""

    Recipe = ClassificationRecipe
    metrics = (LOSS, MACRO_F1, ACCURACY)
    test_option = " --labels FILE"
    unit = "text"
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
        self._check_labels()
        if texts.validation and not data.validation:
            context.ranks.first(lambda: write_examples(context.out / VALIDATION, texts.validation))
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
        return self.criterion(model, batch)

    @cached_property
    def criterion(self) -> ClassificationLoss:
        training = self.recipe.training
        return ClassificationLoss(training.label_smoothing, self._weights(), training.regulariser)

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
        parameters = parameter_count(model)
        steps = "" if self.recipe.is_bag else f"; {counted(step, 'training step')}"
        return card(
            title=f"A classifier of texts with {counted(len(labels), 'label')}",
            about=f"Trained with clearhead: a model of kind {self.recipe.model.kind} with {parameters:,} "
            f"parameters on {counted(len(self.texts.train), 'text')}{steps}. Labels: {label_list(labels)}.",
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
            weights = self._weights()
            of_texts = None if weights is None else weights.numpy()[classes]
            model, converged = Bag.fit(config, self.counted, classes, seed, of_texts)  # pyright: ignore
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
        model.temperature.fill_(calibrated_temperature(logits, class_numbers(held_out, self.texts.labels)))
        return self._scores(logits / model.temperature)

    def _scores(self, logits: Tensor) -> dict[str, float]:
        classes = self.texts.classes(self.texts.validation)
        loss = float(ClassificationLoss().entropy(logits, torch.from_numpy(classes))) / len(classes)
        if self.texts.multi_label:
            found = LabelSets(classes, (logits > 0).numpy())
        else:
            found = Confusion.of(classes.tolist(), logits.argmax(-1).tolist(), len(self.texts.labels))
        return {"loss": loss, "macro_f1": found.by_class.macro_f1, "accuracy": found.accuracy}

    def _weights(self) -> Tensor | None:
        """The weight of each label in the loss, as scikit-learn balances them; of several labels, how many
        more texts lack a label than have it."""
        chosen, texts = self.recipe.data.class_weights, self.texts
        if chosen is None:
            return None
        if chosen == "balanced":
            with_label = torch.from_numpy(texts.label_counts)
            if texts.multi_label:
                return ((len(texts.train) - with_label) / with_label).float()
            return len(texts.train) / (len(texts.labels) * with_label.float())
        return torch.tensor([chosen.get(label, 1.0) for label in texts.labels])

    def _check_labels(self) -> None:
        texts, weights = self.texts, self.recipe.data.class_weights
        if texts.multi_label and self.recipe.is_bag:
            raise DataError(
                "the texts have lists of labels, but a bag of words gives each text one; "
                "set model.kind to 'encoder' or 'bilstm'"
            )
        unknown = (
            [label for label in weights if label not in texts.labels] if isinstance(weights, dict) else ()
        )
        if unknown:
            raise DataError(
                f"data.class_weights: {unknown[0]!r} is not a label of the texts, which have "
                f"{label_list(texts.labels)}"
            )

    def _learn_processor(self, config: TokenizerConfig) -> TextProcessor:
        tokenizer = self.recipe.inherited_tokenizer()
        texts = (example.text for example in self.texts.train)
        tokenizer = tokenizer or Tokenizer.train(texts, config)
        return TextProcessor(tokenizer, self.texts.labels, self.texts.multi_label)

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

    def _about(self) -> str:
        texts = self.texts
        blank = f"; {texts.blank:,} without words or a label are left out" if texts.blank else ""
        return (
            f"texts to train on: {len(texts.train):,}, {len(texts.validation):,} for validation; "
            f"{counted(len(texts.labels), 'label')}{' (any number per text)' if texts.multi_label else ''}: "
            f"{label_list(texts.labels)}{blank}"
        )

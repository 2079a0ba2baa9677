"""A recipe sized to labelled texts: which model, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.examples import check_examples
from clearhead.models import BagConfig, EncoderConfig
from clearhead.models.heads import ClassifierConfig
from clearhead.tasks.classification.data import LabelledTexts
from clearhead.tasks.classification.recipe import (
    ClassificationRecipe,
    ClassificationTraining,
    LabelledConfig,
)
from clearhead.tasks.sizing import (
    FittedRecipe,
    dropout_for,
    estimate_seconds,
    setting,
    steps_of,
    with_changes,
)
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import CosineSchedule
from clearhead.wording import counted

RULE = 1500
"""From this ratio of texts to words per text on, a sequence model should win (Google's guide to text
classification, 2018, step 2.5)."""
# From this many words on, trigrams pay.
TRIGRAM_WORDS = 1_000_000
# Below this many texts, n-grams that occur once are kept.
FEW_TEXTS = 1000
# Measured on one core: reading, counting and fitting.
BAG_SECONDS_PER_WORD = 1.5e-6
EPOCHS, BATCH_TOKENS = 10, 4096
# A pre-trained model needs few epochs, small steps and small batches (Devlin et al. 2019).
FINE_TUNING_EPOCHS, FINE_TUNING_RATE, FINE_TUNING_TEXTS = 4, 2e-4, 32
# It is pre-trained without dropout, on far more text.
FINE_TUNED_MODEL = ("model.kind=encoder", "model.dropout=0.1")


@dataclass(frozen=True)
class FittedLabels(FittedRecipe):
    """A recipe and the texts that it is sized to."""

    recipe: ClassificationRecipe
    texts: LabelledTexts
    words: int
    """In all training texts."""

    def choices(self) -> list[str]:
        """The choices, one per line."""
        texts, model = self.texts, self.recipe.model
        least = min(texts.label_counts)
        found = [
            f"texts: {len(texts.train):,} to train on, {len(texts.validation):,} for validation; "
            f"{texts.words_per_text:.0f} words in the median text; {len(texts.labels)} labels, the rarest "
            f"with {counted(least, 'text')}"
        ]
        if texts.blank:
            found.append(f"left out: {counted(texts.blank, 'text')} without words or without a label")
        found.append(self._why())
        if isinstance(model, BagConfig):
            found.append(
                f"model: bag of n-grams up to {model.max_ngram}, {model.weighting}, {model.classifier}, "
                f"C {model.C:g}"
            )
            return found
        run = self.recipe.training
        layers = counted(model.layers, "layer")
        return [
            *found,
            f"model: {model.kind}, width {model.width}, {layers}, texts of up to {model.max_length} tokens",
            f"run: {counted(run.steps, 'step')}, validated every {run.validate_every:,}; "
            "the best model is kept",
        ]

    def _why(self) -> str:
        """What decided between a bag of words and a sequence model."""
        texts, ratio, start = self.texts, self.texts.ratio, self.recipe.training.init_from
        if start:
            return f"fine-tuning: the tokenizer and the weights below the head are those of {start}"
        if texts.multi_label:
            return "any number of labels per text: a sequence model"
        return (
            f"rule of thumb: {len(texts.train):,} texts / {texts.words_per_text:.0f} words = {ratio:,.0f}, "
            f"{'below' if ratio < RULE else 'at least'} {RULE:,}: "
            f"{'a bag of words' if ratio < RULE else 'a sequence model'}"
        )

    def seconds(self, device: torch.device) -> float:
        """The estimated time of the run."""
        if isinstance(self.recipe.model, BagConfig):
            return self.words * self.recipe.model.max_ngram * BAG_SECONDS_PER_WORD
        return estimate_seconds(self.recipe.resolved(device.type == "cuda"), device)


def fit_labels(
    paths: Sequence[str], changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> FittedLabels:
    """Reads the texts once and sizes a recipe to them; changes such as 'model.kind=bilstm' come first."""
    requested = apply_overrides({"data": {"train": list(paths)}}, changes)
    data = parse_settings(LabelledConfig, requested["data"], group="data")
    check_examples(data.paths)
    with track_progress(map(Path, data.train), progress):
        texts = LabelledTexts.read(data, seed=1)
    lengths = np.array([len(example.text.split()) for example in texts.train])
    kind, steps = setting(requested, "model", "kind"), steps_of(requested, 0)
    if setting(requested, "training", "init_from"):
        recipe, changes = _fine_tuned(data, lengths, steps), [*FINE_TUNED_MODEL, *changes]
    elif kind == "bag" or (kind is None and texts.ratio < RULE and not texts.multi_label):
        recipe = ClassificationRecipe(data=data, model=_bag(texts, int(lengths.sum())))
    else:
        recipe = _encoder(data, lengths, steps)
    return FittedLabels(with_changes(recipe, requested, changes), texts, int(lengths.sum()))


def _bag(texts: LabelledTexts, words: int) -> BagConfig:
    two = len(texts.labels) == 2
    return BagConfig(
        max_ngram=3 if words >= TRIGRAM_WORDS else 2,
        weighting="naive_bayes" if two else "tfidf",
        classifier="logistic" if two else "svm",
        min_documents=1 if len(texts.train) < FEW_TEXTS or not two else 2,
    )


def _fine_tuned(data: LabelledConfig, lengths: np.ndarray, requested_steps: int) -> ClassificationRecipe:
    """A few epochs at a low learning rate; the model is that of `training.init_from`."""
    tokens = int(np.clip(FINE_TUNING_TEXTS * 1.25 * np.mean(lengths), 512, 4 * BATCH_TOKENS))
    steps = requested_steps or max(100, int(FINE_TUNING_EPOCHS * 1.25 * lengths.sum() / tokens))
    every = max(20, steps // 10)
    return ClassificationRecipe(
        data=data,
        model=EncoderConfig(),
        batches=BatchingConfig(tokens=tokens),
        training=ClassificationTraining(
            steps=steps,
            schedule=CosineSchedule(learning_rate=FINE_TUNING_RATE, warmup=max(1, steps // 16)),
            validate_every=every,
            save_every=every,
        ),
    )


def _encoder(data: LabelledConfig, lengths: np.ndarray, requested_steps: int) -> ClassificationRecipe:
    # Punctuation marks are tokens of their own.
    max_length = int(min(512, max(16, 1.25 * np.quantile(lengths, 0.98))))
    usual = max(200, int(EPOCHS * np.minimum(1.25 * lengths, max_length).sum() / BATCH_TOKENS))
    steps = requested_steps or usual
    every, dropout = max(20, steps // 20), dropout_for(0.3, steps / usual)
    return ClassificationRecipe(
        data=data,
        tokenizer=TokenizerConfig(kind="word", vocabulary=20000, lowercase=True),
        model=EncoderConfig(max_length=max_length, dropout=dropout, head=ClassifierConfig(dropout=dropout)),
        batches=BatchingConfig(tokens=BATCH_TOKENS),
        training=ClassificationTraining(
            steps=steps,
            schedule=CosineSchedule(learning_rate=1e-3, warmup=max(1, steps // 20)),
            validate_every=every,
            save_every=every,
        ),
    )

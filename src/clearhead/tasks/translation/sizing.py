"""A recipe sized to a corpus and to a time budget: vocabulary, model and length of the run."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batch import PairBatch
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import Tally, clean
from clearhead.data.datasets import SHIPPED
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources import READERS
from clearhead.data.sources.corpus import DataPath, check_files, languages_in, read_pairs, reader_of_pairs
from clearhead.data.sources.streams import compression, suffix
from clearhead.errors import DataError, SettingsError
from clearhead.models import Seq2SeqConfig, TranslatorConfig
from clearhead.tasks.sizing import (
    VALIDATIONS,
    FittedRecipe,
    count_of,
    dropout_for,
    largest_affordable,
    matrix_weights,
    setting,
    steps_of,
    with_changes,
)
from clearhead.tasks.translation.data import training_files
from clearhead.tasks.translation.recipe import (
    DataConfig,
    HoldOut,
    TranslationRecipe,
    TranslationTraining,
    ValidationConfig,
)
from clearhead.tasks.translation.tuning import TUNING_HELD_OUT, tuned_recipe
from clearhead.tasks.translation.tuning_time import TRIAL_SENTENCES, trial, tuning_seconds
from clearhead.tasks.zoo import describe, find
from clearhead.text.languages import NAMES, check_language
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TimeBudget
from clearhead.training.devices import on_gpu
from clearhead.training.schedule import DECAY, InverseSquareRootSchedule, ScheduleConfig, StableSchedule
from clearhead.wording import counted

# Typical of a vocabulary trained on the same text.
SUBWORDS_PER_WORD = 1.3
# Maximum number of pairs held out for each of validation and test.
HELD_OUT = 1000
# A model is worth its size if it is trained on this many tokens per weight.
TOKENS_PER_WEIGHT = 4
# About 100,000 words. With fewer, a translator trained from scratch is of little use even if well tuned
# (Koehn and Knowles 2017; Sennrich and Zhang 2019).
FEW_PAIRS = 5_000
# Sentences of a validation under a time budget.
BUDGET_SENTENCES = 200
# A GPU needs larger batches to be busy.
GPU_BATCH_FACTOR = 4


@dataclass(frozen=True)
class Size:
    """Settings for corpora of up to a number of pairs."""

    pairs: float
    vocabulary: int
    model: Mapping[str, Any]
    dropout: float
    epochs: int
    batch_tokens: int
    learning_rate: float

    @property
    def config(self) -> TranslatorConfig:
        """The model."""
        shape = {"dropout": self.dropout, "norm_position": "pre", **self.model}
        return TranslatorConfig.model_validate(shape)


SIZES = (
    Size(5_000, 1250, {"preset": "tiny"}, 0.3, 100, 1000, 2e-3),
    Size(50_000, 4000, {"preset": "tiny"}, 0.3, 40, 4096, 3e-3),
    Size(500_000, 8000, {"preset": "small"}, 0.1, 20, 4096, 1e-3),
    Size(5_000_000, 16000, {"preset": "base"}, 0.1, 15, 16384, 7e-4),
    Size(float("inf"), 32000, {"preset": "base"}, 0.1, 5, 25000, 7e-4),
)


@dataclass(frozen=True)
class Shape:
    """A model for a time budget, with what suits its size."""

    width: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    vocabulary: int
    batch_tokens: int
    learning_rate: float

    def of(self, size: Size) -> Size:
        """The size of a corpus with this model instead of its usual one."""
        model = {
            "width": self.width,
            "ffn_width": 4 * self.width,
            "encoder_layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "attention": {"heads": self.heads},
        }
        vocabulary = min(self.vocabulary, size.vocabulary)
        return replace(
            size,
            vocabulary=vocabulary,
            model=model,
            batch_tokens=min(self.batch_tokens, size.batch_tokens),
            learning_rate=self.learning_rate,
        )


# From small to large; few layers, because deep models learn more slowly.
SHAPES = (
    Shape(64, 2, 2, 2, 2000, 1024, 5e-3),
    Shape(128, 3, 2, 4, 4000, 2048, 3e-3),
    Shape(256, 3, 3, 4, 8000, 4096, 1.5e-3),
    Shape(512, 6, 6, 8, 32000, 16384, 7e-4),
)


@dataclass(frozen=True)
class FittedPairs(FittedRecipe):
    """A recipe and the corpus that it is sized to."""

    recipe: TranslationRecipe
    tally: Tally
    tokens: int
    """Estimated target tokens per epoch."""
    notes: tuple[str, ...] = ()
    planned_seconds: float | None = None
    """The estimated time of a run with a time budget."""
    budget_minutes: float | None = None
    """The time budget of a run that has one."""
    sources: tuple[str, ...] = ()
    """The first sentences, by which the time of fine-tuning is measured."""

    def seconds(self, device: torch.device) -> float:
        if self.recipe.training.init_from:
            return tuning_seconds(self.recipe, self.tally.kept, self.tokens, self.sources, device)
        return self.planned_seconds or super().seconds(device)

    @property
    def warning(self) -> str:
        if self.recipe.training.init_from:
            return ""
        poor, instead = "expect a poor translator", "fine-tune a trained model (clearhead tune)"
        if self.tally.kept < FEW_PAIRS:
            few = f"{counted(self.tally.kept, 'pair')}: too few to learn to translate from"
            return f"{few}, {poor}; add pairs, tens of thousands if possible, or {instead}"
        if self.budget_minutes and (share := self._share_of_needed_tokens()) < 1:
            short = f"--minutes {self.budget_minutes:g}: too short for a model of any size on this machine"
            return f"{short}, {poor}; pass at least {math.ceil(self.budget_minutes / share):,}, or {instead}"
        return ""

    def _share_of_needed_tokens(self) -> float:
        """The tokens of the run, relative to those for which a model is worth its size."""
        tokens = self.recipe.training.steps * self.recipe.batches.tokens
        usual = self.tokens * next(size for size in SIZES if self.tally.kept <= size.pairs).epochs
        return tokens / min(TOKENS_PER_WEIGHT * matrix_weights(self.recipe), usual)

    @property
    def epochs(self) -> float:
        return self.recipe.training.steps / _steps(self.tokens, self.recipe.batches.tokens)

    def choices(self) -> list[str]:
        """The choices, one per line."""
        recipe, model = self.recipe, self.recipe.model
        return [
            f"corpus: {self.tally}",
            f"languages: {' and '.join(f'{one.source} to {one.target}' for one in recipe.data.directions)}",
            f"vocabulary: {recipe.tokenizer.vocabulary:,} subwords, shared",
            f"model: {model.summary}, dropout {model.dropout}",
            f"run: {'about ' * bool(self.planned_seconds)}{counted(recipe.training.steps, 'step')} of about "
            f"{recipe.batches.tokens:,} tokens ({self.epochs:.3g} epochs), validated every "
            f"{recipe.training.validate_every:,}, {self._end()}",
            *self.notes,
        ]

    def _end(self) -> str:
        if patience := self.recipe.training.patience:
            return f"stopped after {patience} validations without improvement"
        return "decaying to the last step"


def fit(
    paths: Sequence[DataPath],
    languages: tuple[str, str] | None,
    changes: Sequence[str] = (),
    progress: ProgressCallback = ignore_progress,
    budget: TimeBudget | None = None,
) -> FittedPairs:
    """Reads the corpus once and sizes a recipe to it; changes such as 'model.width=64' take precedence.

    With a time budget, the model is the largest that learns enough in the time, as measured on this machine.
    """
    parent = setting(apply_overrides({}, changes), "training", "init_from")
    source, target = map(check_language, languages or guess_languages(paths[0], parent))
    files = [list(map(str, path)) if isinstance(path, tuple) else str(path) for path in paths]
    requested = apply_overrides({"data": {"source": source, "target": target, "train": files}}, changes)
    data = parse_settings(DataConfig, requested["data"], group="data")
    [corpus] = data.corpora
    check_files(corpus.train)
    tally, words = Tally(), 0
    sources: list[str] = []
    read = chain.from_iterable(read_pairs(path, corpus.languages, corpus.columns) for path in corpus.train)
    with track_progress(training_files(corpus), progress):
        for pair in clean(read, data.cleaning, tally):
            sources += [pair.source] if len(sources) < TRIAL_SENTENCES else []
            words += sum(len(written.split()) + 1 for written in (pair if corpus.both else pair[1:]))
    if tally.kept < 20:
        shown = " and ".join(map(_shown, paths))
        raise DataError(f"{shown}: {tally}; a translator needs at least 20 pairs, better thousands")
    tuned = bool(setting(requested, "training", "init_from"))
    held_out = min(TUNING_HELD_OUT if tuned else HELD_OUT, tally.kept // 20)
    data = data.model_copy(update={"hold_out": HoldOut(validation=held_out, test=held_out)})
    tokens = int(words * SUBWORDS_PER_WORD)
    if tuned:
        recipe, notes = tuned_recipe(data, tally.kept, tokens, requested, changes)
        return FittedPairs(recipe, tally, tokens, notes, sources=tuple(sources))
    size = next(size for size in SIZES if tally.kept <= size.pairs)
    corpus_size = CorpusSize(data, tally.kept, tokens, requested, changes)
    if budget:
        recipe, seconds = corpus_size.recipe_within(budget, size)
        # If the user sets the steps, the budget does not limit them.
        minutes = None if setting(requested, "training", "steps") else budget.minutes
        return FittedPairs(recipe, tally, tokens, planned_seconds=seconds, budget_minutes=minutes)
    return FittedPairs(corpus_size.recipe(size), tally, tokens)


@dataclass(frozen=True)
class CorpusSize:
    """A corpus as the sizing of recipes sees it, and the user's changes."""

    data: DataConfig
    pairs: int
    tokens: int
    """Of the targets, per epoch."""
    requested: Mapping[str, Any]
    changes: Sequence[str]

    def recipe(self, size: Size, max_steps: int | None = None) -> TranslationRecipe:
        """The recipe of a size, for the requested or the usual number of steps, `max_steps` at most."""
        per_epoch = _steps(self.tokens, count_of(self.requested, "batches", "tokens", size.batch_tokens))
        usual = max(200, size.epochs * per_epoch)
        steps = steps_of(self.requested, min(usual, max_steps or usual))
        size = replace(size, dropout=dropout_for(size.dropout, steps / per_epoch / size.epochs))
        recipe = _recipe(size, self.data, steps, steps < usual)
        if setting(self.requested, "model", "kind") == "seq2seq":
            # A recurrent model has no feed-forward and fewer layers, so that equal parameters make it wider.
            width = min(512, 2 * recipe.model.width)
            recipe = recipe.model_copy(update={"model": Seq2SeqConfig(width=width, dropout=size.dropout)})
        if max_steps:
            every = max(20, steps // VALIDATIONS)
            training = {"validate_every": every, "save_every": every, "patience": 0}
            recipe = recipe.model_copy(
                update={
                    "training": recipe.training.model_copy(update=training),
                    "validation": ValidationConfig(sentences=BUDGET_SENTENCES),
                }
            )
        return with_changes(recipe, self.requested, self.changes)

    def recipe_within(self, budget: TimeBudget, size: Size) -> tuple[TranslationRecipe, float]:
        """The recipe for a time budget, and the time that it is expected to need."""
        most = size.config.width
        shapes = [shape.of(size) for shape in SHAPES if shape.width <= most]
        if on_gpu(setting(self.requested, "training", "device") or "auto"):
            shapes = [replace(one, batch_tokens=GPU_BATCH_FACTOR * one.batch_tokens) for one in shapes]
        candidates = [self.recipe(one) for one in shapes]
        chosen = largest_affordable(candidates, TOKENS_PER_WEIGHT, budget, self._trial)
        seconds, budget.max_steps = budget.seconds_left, chosen.recipe.training.steps
        recipe = self.recipe(shapes[chosen.number], chosen.steps(seconds))
        return recipe, seconds * recipe.training.steps / chosen.steps(seconds)

    def _trial(self, recipe: TranslationRecipe) -> tuple[Any, PairBatch]:
        """The loss of a recipe, and a batch of pairs of the mean length."""
        return trial(recipe, max(1, self.tokens // self.pairs), recipe.batches.tokens)


def _recipe(size: Size, data: DataConfig, steps: int, short: bool) -> TranslationRecipe:
    """The recipe of a size, for a number of steps: with a decay if they are fewer than usual."""
    every = max(50, min(2000, steps // 20))
    rate, warmup = size.learning_rate, max(1, min(4000, steps // 10))
    schedule: ScheduleConfig = InverseSquareRootSchedule(learning_rate=rate, warmup=warmup)
    if short:
        schedule = StableSchedule(learning_rate=rate, warmup=warmup, decay=DECAY)
    return TranslationRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=size.vocabulary),
        model=size.config,
        batches=BatchingConfig(tokens=size.batch_tokens),
        training=TranslationTraining(
            steps=steps,
            schedule=schedule,
            validate_every=every,
            save_every=every,
            patience=0 if short else 5,
        ),
    )


def _steps(tokens: int, batch: int) -> int:
    """Estimated steps per epoch."""
    return max(1, tokens // batch)


def guess_languages(path: DataPath, parent: str | None = None) -> tuple[str, str]:
    """The languages of a shipped data set or a file, by a name such as 'news.en-de.tsv' or by its content.

    If both say nothing, they are those of the model to fine-tune, which has to have only one direction.
    """
    if isinstance(path, tuple):
        codes = [_code(Path(part)) for part in path]
        if all(code in NAMES for code in codes):
            return codes[0], codes[1]
    elif str(path) in SHIPPED:
        first, second = SHIPPED[str(path)].languages
        return first, second
    else:
        for first, second in re.findall(
            r"(?=(?<![a-z])([a-z]{2,3})[-_]([a-z]{2,3})(?![a-z]))", Path(path).name
        ):
            if first in NAMES and second in NAMES:
                return first, second
        check_files([path])
        if found := languages_in(Path(path)):
            return found
        reader_of_pairs(Path(path))  # another suffix would not be read with --from and --to either
    if parent and (direction := _only_direction(parent)):
        return direction
    raise SettingsError(
        f"{_shown(path)}: the languages are in neither the file name nor the content; add --from en --to de"
    )


def _only_direction(model: str) -> tuple[str, str] | None:
    """The direction that a name such as 'en-fr' selects, or the only one of a model."""
    folder, variant = find(model)
    known = describe(folder)
    directions = [variant] if variant else known.variants if known else ()
    if len(directions) != 1:
        return None
    source, _, target = directions[0].partition("-")
    return source, target


def _code(path: Path) -> str:
    """The language in the name of one of two aligned files: 'de' for 'news.de.gz' or 'film.de.srt'."""
    name = path.stem if compression(path) else path.name
    return Path(name if suffix(path) not in READERS else Path(name).stem).suffix.removeprefix(".")


def _shown(path: DataPath) -> str:
    return " and ".join(map(str, path)) if isinstance(path, tuple) else str(path)

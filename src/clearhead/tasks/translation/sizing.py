"""A recipe sized to a corpus: vocabulary, model and length of the run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import Tally, clean
from clearhead.data.datasets import SHIPPED
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.corpus import DataPath, check_files, languages_in, read_pairs
from clearhead.errors import DataError, SettingsError
from clearhead.models import Seq2SeqConfig, TranslatorConfig
from clearhead.tasks.sizing import FittedRecipe, setting, steps_of, with_changes
from clearhead.tasks.translation.data import training_files
from clearhead.tasks.translation.recipe import (
    DataConfig,
    HoldOut,
    TranslationRecipe,
    TranslationTraining,
    ValidationConfig,
)
from clearhead.text.languages import NAMES, check_language
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import InverseSquareRootSchedule, StableSchedule

# Typical of a vocabulary trained on the same text.
SUBWORDS_PER_WORD = 1.3
# Most pairs held out for each of validation and test; fewer for fine-tuning, which measures four times.
HELD_OUT, TUNING_HELD_OUT = 1000, 500


@dataclass(frozen=True)
class Size:
    """Settings for corpora of up to a number of pairs."""

    pairs: float
    vocabulary: int
    preset: str
    dropout: float
    epochs: int
    batch_tokens: int
    learning_rate: float


SIZES = (
    Size(5_000, 1250, "tiny", 0.3, 100, 1000, 2e-3),
    Size(50_000, 4000, "tiny", 0.3, 40, 4096, 3e-3),
    Size(500_000, 8000, "small", 0.1, 20, 4096, 1e-3),
    Size(5_000_000, 16000, "base", 0.1, 15, 16384, 7e-4),
    Size(float("inf"), 32000, "base", 0.1, 5, 25000, 7e-4),
)


@dataclass(frozen=True)
class TuningSize:
    """Settings of a run that starts from a trained model, for corpora of up to a number of pairs."""

    pairs: float
    epochs: int
    batch_tokens: int
    dropout: float


TUNING_SIZES = (
    TuningSize(2_000, 10, 1024, 0.2),
    TuningSize(10_000, 3, 2048, 0.1),
    TuningSize(float("inf"), 1, 2048, 0.1),
)
TUNING_RATE = 6e-4
# Validations of a fine-tuning run, and how many of them may fail to improve.
TUNING_VALIDATIONS, TUNING_PATIENCE = 8, 3


@dataclass(frozen=True)
class FittedPairs(FittedRecipe):
    """A recipe and the corpus that it is sized to."""

    recipe: TranslationRecipe
    tally: Tally
    tokens: int
    """Estimated target tokens per epoch."""

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
            f"run: {recipe.training.steps:,} steps of about {recipe.batches.tokens:,} tokens "
            f"({self.epochs:.3g} epochs), validated every {recipe.training.validate_every:,}, stopped after "
            f"{recipe.training.patience} validations without improvement",
        ]


def fit(
    paths: Sequence[DataPath],
    languages: tuple[str, str] | None,
    changes: Sequence[str] = (),
    progress: ProgressCallback = ignore_progress,
) -> FittedPairs:
    """Reads the corpus once and sizes a recipe to it; changes such as 'model.width=64' take precedence."""
    source, target = (check_language(language) for language in languages or guess_languages(paths[0]))
    files = [list(map(str, path)) if isinstance(path, tuple) else str(path) for path in paths]
    requested = apply_overrides({"data": {"source": source, "target": target, "train": files}}, changes)
    data = parse_settings(DataConfig, requested["data"], group="data")
    [corpus] = data.corpora
    check_files(corpus.train)
    tally, words = Tally(), 0
    read = chain.from_iterable(read_pairs(path, corpus.languages, corpus.columns) for path in corpus.train)
    with track_progress(training_files(corpus), progress):
        for pair in clean(read, data.cleaning, tally):
            words += sum(len(written.split()) + 1 for written in (pair if corpus.both else pair[1:]))
    if tally.kept < 20:
        shown = " and ".join(map(_shown, paths))
        raise DataError(f"{shown}: {tally}; a translator needs at least 20 pairs, better thousands")
    tuned = bool(setting(requested, "training", "init_from"))
    held_out = min(TUNING_HELD_OUT if tuned else HELD_OUT, tally.kept // 20)
    data = data.model_copy(update={"hold_out": HoldOut(validation=held_out, test=held_out)})
    tokens = int(words * SUBWORDS_PER_WORD)
    if tuned:
        recipe, dropout = _tuned(data, tally.kept, tokens, requested)
        return FittedPairs(with_changes(recipe, requested, [dropout, *changes]), tally, tokens)
    size = next(size for size in SIZES if tally.kept <= size.pairs)
    usual = max(200, size.epochs * _steps(tokens, size.batch_tokens))
    recipe = _recipe(size, data, steps_of(requested, usual))
    if setting(requested, "model", "kind") == "seq2seq":
        # A recurrent model has no feed-forward and fewer layers, so that equal parameters make it wider.
        width = min(512, 2 * recipe.model.width)
        recipe = recipe.model_copy(update={"model": Seq2SeqConfig(width=width, dropout=size.dropout)})
    return FittedPairs(with_changes(recipe, requested, changes), tally, tokens)


def _recipe(size: Size, data: DataConfig, steps: int) -> TranslationRecipe:
    """The recipe of a size, for a number of steps."""
    every = max(50, min(2000, steps // 20))
    return TranslationRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=size.vocabulary),
        model=TranslatorConfig.model_validate(
            {"preset": size.preset, "dropout": size.dropout, "norm_position": "pre"}
        ),
        batches=BatchingConfig(tokens=size.batch_tokens),
        training=TranslationTraining(
            steps=steps,
            schedule=InverseSquareRootSchedule(
                learning_rate=size.learning_rate, warmup=max(1, min(4000, steps // 10))
            ),
            validate_every=every,
            save_every=every,
            patience=5,
        ),
    )


def _tuned(
    data: DataConfig, pairs: int, tokens: int, requested: Mapping[str, Any]
) -> tuple[TranslationRecipe, str]:
    """A short run at a low learning rate that falls to zero, and the dropout of the inherited model."""
    size = next(size for size in TUNING_SIZES if pairs <= size.pairs)
    tokens = int(tokens / (1 - data.mix))
    steps = steps_of(requested, max(50, size.epochs * _steps(tokens, size.batch_tokens)))
    every = max(1, -(-steps // TUNING_VALIDATIONS))
    recipe = TranslationRecipe(
        data=data,
        batches=BatchingConfig(tokens=size.batch_tokens),
        training=TranslationTraining(
            steps=steps,
            schedule=StableSchedule(learning_rate=TUNING_RATE, warmup=max(1, steps // 20), decay=1.0),
            validate_every=every,
            save_every=every,
            patience=TUNING_PATIENCE,
        ),
        # The scores before and after fine-tuning have the BLEU.
        validation=ValidationConfig(sentences=0),
    )
    return recipe, f"model.dropout={size.dropout}"


def _steps(tokens: int, batch: int) -> int:
    """Estimated steps per epoch."""
    return max(1, tokens // batch)


def guess_languages(path: DataPath) -> tuple[str, str]:
    """The languages of a shipped data set or a file, by a name such as 'news.en-de.tsv' or by its content."""
    if isinstance(path, tuple):
        codes = [re.sub(r"\.(gz|xz|zst)$", "", str(part)).rpartition(".")[2] for part in path]
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
    raise SettingsError(
        f"{_shown(path)}: the languages are in neither the file name nor the content; add --from en --to de"
    )


def _shown(path: DataPath) -> str:
    return " and ".join(map(str, path)) if isinstance(path, tuple) else str(path)

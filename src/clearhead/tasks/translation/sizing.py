"""A recipe sized to a corpus: vocabulary, model and length of the run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import Tally, clean
from clearhead.data.datasets import SHIPPED
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources import READERS
from clearhead.data.sources.corpus import DataPath, check_files, languages_in, read_pairs
from clearhead.data.sources.streams import compression, suffix
from clearhead.errors import DataError, SettingsError
from clearhead.models import Seq2SeqConfig, TranslatorConfig
from clearhead.tasks.sizing import FittedRecipe, setting, steps_of, with_changes
from clearhead.tasks.translation.data import training_files
from clearhead.tasks.translation.recipe import DataConfig, HoldOut, TranslationRecipe, TranslationTraining
from clearhead.tasks.translation.tuning import TUNING_HELD_OUT, tuned_recipe
from clearhead.text.languages import NAMES, check_language
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import InverseSquareRootSchedule
from clearhead.wording import counted

# Typical of a vocabulary trained on the same text.
SUBWORDS_PER_WORD = 1.3
# Most pairs held out for each of validation and test.
HELD_OUT = 1000


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
class FittedPairs(FittedRecipe):
    """A recipe and the corpus that it is sized to."""

    recipe: TranslationRecipe
    tally: Tally
    tokens: int
    """Estimated target tokens per epoch."""
    notes: tuple[str, ...] = ()

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
            f"run: {counted(recipe.training.steps, 'step')} of about {recipe.batches.tokens:,} tokens "
            f"({self.epochs:.3g} epochs), validated every {recipe.training.validate_every:,}, stopped after "
            f"{recipe.training.patience} validations without improvement",
            *self.notes,
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
        recipe, notes = tuned_recipe(data, tally.kept, tokens, requested, changes)
        return FittedPairs(recipe, tally, tokens, notes)
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


def _steps(tokens: int, batch: int) -> int:
    """Estimated steps per epoch."""
    return max(1, tokens // batch)


def guess_languages(path: DataPath) -> tuple[str, str]:
    """The languages of a shipped data set or a file, by a name such as 'news.en-de.tsv' or by its content."""
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
    raise SettingsError(
        f"{_shown(path)}: the languages are in neither the file name nor the content; add --from en --to de"
    )


def _code(path: Path) -> str:
    """The language in the name of one of two aligned files: 'de' for 'news.de.gz' or 'film.de.srt'."""
    name = path.stem if compression(path) else path.name
    return Path(name if suffix(path) not in READERS else Path(name).stem).suffix.removeprefix(".")


def _shown(path: DataPath) -> str:
    return " and ".join(map(str, path)) if isinstance(path, tuple) else str(path)

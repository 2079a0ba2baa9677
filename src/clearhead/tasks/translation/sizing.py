"""A recipe fitted to a corpus: how large a vocabulary and model, how long a run, and how long it may take."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch

from clearhead.config import changed, parse_settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.data.cleaning import Tally, clean
from clearhead.data.datasets import SHIPPED
from clearhead.data.progress import ProgressCallback, followed, unfollowed
from clearhead.data.sources.corpus import Place, check_files, read_pairs
from clearhead.data.sources.languages import languages_in
from clearhead.errors import DataError, SettingsError
from clearhead.models import TranslatorConfig
from clearhead.tasks.fitting import settled, steps_of
from clearhead.tasks.recipes import Recipe
from clearhead.tasks.translation.data import training_files
from clearhead.tasks.translation.recipe import DataConfig, HoldOut, TranslationRecipe, TranslationTraining
from clearhead.text.languages import NAMES, check
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training.schedule import InverseSquareRootSchedule

# Subwords for each word, with a vocabulary that was learned from the same text.
PIECES_PER_WORD = 1.3
# Of the speed of plain products, what a training step reaches.
EFFICIENCY = {"cpu": 0.7, "cuda": 0.2}


@dataclass(frozen=True)
class Size:
    """What suits corpora of up to so many pairs."""

    pairs: float
    vocabulary: int
    preset: str
    dropout: float
    epochs: int
    tokens: int
    """a batch"""
    learning_rate: float
    """learning rate"""


SIZES = (
    Size(5_000, 1000, "tiny", 0.3, 100, 1000, 2e-3),
    Size(50_000, 4000, "tiny", 0.3, 40, 4096, 3e-3),
    Size(500_000, 8000, "small", 0.1, 20, 4096, 1e-3),
    Size(5_000_000, 16000, "base", 0.1, 15, 16384, 7e-4),
    Size(float("inf"), 32000, "base", 0.1, 5, 25000, 7e-4),
)


@dataclass(frozen=True)
class Fitted:
    """A recipe and what led to it."""

    recipe: TranslationRecipe
    tally: Tally
    tokens: int
    """of the targets, in one epoch, about"""

    @property
    def epochs(self) -> float:
        return self.recipe.training.steps / _steps(self.tokens, self.recipe.batches.tokens)

    @property
    def products(self) -> int:
        """Multiplications for each token, forwards."""
        model, vocabulary = self.recipe.model, self.recipe.tokenizer.vocabulary
        square = model.width * model.width
        layers = 4 * square * (model.encoder_layers + 2 * model.decoder_layers)
        between = 2 * model.width * model.ffn_width * (model.encoder_layers + model.decoder_layers)
        return layers + between + vocabulary * model.width

    def choices(self) -> list[str]:
        """What was chosen, in words."""
        recipe, model = self.recipe, self.recipe.model
        return [
            f"corpus: {self.tally}",
            f"languages: {' and '.join(f'{one.source} to {one.target}' for one in recipe.data.directions)}",
            f"vocabulary: {recipe.tokenizer.vocabulary:,} subwords, shared",
            f"model: width {model.width}, hidden {model.ffn_width}, {model.encoder_layers} + "
            f"{model.decoder_layers} layers, {model.attention.heads} heads, dropout {model.dropout}",
            f"run: {recipe.training.steps:,} steps of about {recipe.batches.tokens:,} tokens "
            f"({self.epochs:.3g} epochs), validated every "
            f"{recipe.training.validate_every:,}, stopped when {recipe.training.patience} validations bring "
            "nothing",
        ]


def fit(
    places: Sequence[Place],
    languages: tuple[str, str] | None,
    changes: Sequence[str] = (),
    follow: ProgressCallback = unfollowed,
) -> Fitted:
    """Reads the corpus once and chooses by its size; changes of the form 'model.width=64' take precedence."""
    asked = _asked(places, languages, changes)
    data = parse_settings(DataConfig, asked["data"], group="data")
    [corpus] = data.corpora
    check_files(corpus.train)
    tally, words = Tally(), 0
    read = chain.from_iterable(read_pairs(place, corpus.languages, corpus.columns) for place in corpus.train)
    with followed(training_files(corpus), follow):
        for pair in clean(read, data.cleaning, tally):
            words += sum(len(written.split()) + 1 for written in (pair if corpus.both else pair[1:]))
    if tally.kept < 20:
        shown = " and ".join(map(_shown, places))
        raise DataError(f"{shown}: {tally}; a translator needs at least 20 pairs, better thousands")
    held_out = min(1000, tally.kept // 20)
    data = data.model_copy(update={"hold_out": HoldOut(validation=held_out, test=held_out)})
    size = next(size for size in SIZES if tally.kept <= size.pairs)
    tokens = int(words * PIECES_PER_WORD)
    usual = max(200, size.epochs * _steps(tokens, size.tokens))
    recipe = _recipe(size, data, steps_of(asked, usual))
    return Fitted(settled(recipe, asked, changes), tally, tokens)


def _asked(
    places: Sequence[Place], languages: tuple[str, str] | None, changes: Sequence[str]
) -> dict[str, Any]:
    """What is known before the corpus is read: its files and languages, and what the changes say."""
    source, target = (check(language) for language in languages or guess_languages(places[0]))
    files = [list(map(str, place)) if isinstance(place, tuple) else str(place) for place in places]
    return changed({"data": {"source": source, "target": target, "train": files}}, changes)


def _recipe(size: Size, data: DataConfig, steps: int) -> TranslationRecipe:
    """What suits the size, for so many steps."""
    every = max(50, min(2000, steps // 20))
    return TranslationRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=size.vocabulary),
        model=TranslatorConfig.model_validate(
            {"preset": size.preset, "dropout": size.dropout, "norm_position": "pre"}
        ),
        batches=BatchingConfig(tokens=size.tokens),
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
    """In one epoch, about."""
    return max(1, tokens // batch)


def guess_languages(place: Place) -> tuple[str, str]:
    """From a data set's name, file names such as 'news.en-de.tsv' or 'news.en', or what a file says."""
    if isinstance(place, tuple):
        codes = [re.sub(r"\.(gz|xz|zst)$", "", str(part)).rpartition(".")[2] for part in place]
        if all(code in NAMES for code in codes):
            return codes[0], codes[1]
    elif str(place) in SHIPPED:
        first, second = SHIPPED[str(place)].languages
        return first, second
    else:
        for first, second in re.findall(
            r"(?=(?<![a-z])([a-z]{2,3})[-_]([a-z]{2,3})(?![a-z]))", Path(place).name
        ):
            if first in NAMES and second in NAMES:
                return first, second
        check_files([place])
        if told := languages_in(Path(place)):
            return told
    raise SettingsError(
        f"{_shown(place)}: neither name nor content tells the languages; say --from en --to de"
    )


class Sized(Protocol):
    """What an estimate is made from."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def products(self) -> int: ...


def estimate_seconds(fitted: Sized, device: torch.device) -> float:
    """How long the whole run may take here, from the speed of plain products; a rough guess."""
    recipe = fitted.recipe
    tokens = recipe.training.steps * recipe.batches.tokens
    speed = _products_per_second(device, recipe.model.width) * EFFICIENCY[device.type]
    # Forward and backward are three products of two operations each.
    return 6 * fitted.products * tokens / speed


def _products_per_second(device: torch.device, width: int) -> float:
    """Operations a second in products of the model's shape: the best of a few tries."""
    left, right = torch.randn(1024, width, device=device), torch.randn(width, 4 * width, device=device)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        torch.stack([left @ right for _ in range(8)]).sum().item()
        seconds.append(time.perf_counter() - began)
    return 8 * 2 * 1024 * width * 4 * width / min(seconds)


def _shown(place: Place) -> str:
    return " and ".join(map(str, place)) if isinstance(place, tuple) else str(place)

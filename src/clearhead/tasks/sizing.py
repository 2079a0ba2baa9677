"""A recipe fitted to a corpus: how large a vocabulary and model, how long a run, and how long it may take."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.config import changed, parse_settings
from clearhead.data.batching import BatchingConfig
from clearhead.data.cleaning import CleaningConfig, Tally, clean
from clearhead.data.corpus import Place, read_pairs
from clearhead.data.datasets import SHIPPED
from clearhead.errors import DataError, SettingsError
from clearhead.models import TranslatorConfig
from clearhead.tasks.recipe import DataConfig, HoldOut, TranslationRecipe
from clearhead.text.languages import NAMES, check
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig
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
    peak: float
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

    def choices(self) -> list[str]:
        """What was chosen, in words."""
        recipe, model = self.recipe, self.recipe.model
        return [
            f"corpus: {self.tally}",
            f"languages: {recipe.data.source} to {recipe.data.target}",
            f"vocabulary: {recipe.tokenizer.vocabulary:,} subwords, shared",
            f"model: width {model.width}, hidden {model.hidden}, {model.encoder_layers} + "
            f"{model.decoder_layers} layers, {model.attention.heads} heads, dropout {model.dropout}",
            f"run: {recipe.training.steps:,} steps of about {recipe.batches.tokens:,} tokens "
            f"({self.epochs:.3g} epochs), validated every "
            f"{recipe.training.validate_every:,}, stopped when {recipe.training.patience} validations bring "
            "nothing",
        ]


def fit(place: Place, languages: tuple[str, str] | None, changes: Sequence[str] = ()) -> Fitted:
    """Reads the corpus once and chooses by its size; then come changes of the form 'model.width=64'."""
    languages = languages or guess_languages(place)
    for language in languages:
        check(language)
    tally, words = Tally(), 0
    for pair in clean(read_pairs(place, languages), CleaningConfig(), tally):
        words += len(pair.target.split()) + 1
    if tally.kept < 20:
        raise DataError(f"{_shown(place)}: {tally}; a translator needs at least 20 pairs, better thousands")
    size = next(size for size in SIZES if tally.kept <= size.pairs)
    tokens = int(words * PIECES_PER_WORD)
    data = DataConfig(
        source=languages[0],
        target=languages[1],
        train=((str(place[0]), str(place[1])) if isinstance(place, tuple) else str(place),),
        hold_out=HoldOut(validation=min(1000, tally.kept // 20), test=min(1000, tally.kept // 20)),
    )
    values = _recipe(size, data, tokens).model_dump(mode="json", exclude_none=True)
    return Fitted(parse_settings(TranslationRecipe, changed(values, changes)), tally, tokens)


def _recipe(size: Size, data: DataConfig, tokens: int) -> TranslationRecipe:
    """What suits the size, for a corpus of about so many tokens."""
    steps = max(200, size.epochs * _steps(tokens, size.tokens))
    every = max(50, min(2000, steps // 20))
    return TranslationRecipe(
        data=data,
        tokenizer=TokenizerConfig(vocabulary=size.vocabulary),
        model=TranslatorConfig.model_validate(
            {"preset": size.preset, "dropout": size.dropout, "norm_place": "pre"}
        ),
        batches=BatchingConfig(tokens=size.tokens),
        training=TrainingConfig(
            steps=steps,
            schedule=InverseSquareRootSchedule(peak=size.peak, warmup=max(50, min(4000, steps // 10))),
            validate_every=every,
            save_every=every,
            patience=5,
        ),
    )


def _steps(tokens: int, batch: int) -> int:
    """In one epoch, about."""
    return max(1, tokens // batch)


def guess_languages(place: Place) -> tuple[str, str]:
    """From a data set's name, a file name such as 'news.en-de.tsv', or the endings of aligned files."""
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
    raise SettingsError(f"{_shown(place)}: its name does not tell the languages; say --from en --to de")


def estimate_seconds(fitted: Fitted, device: torch.device) -> float:
    """How long the whole run may take here, from the speed of plain products; a rough guess."""
    model, vocabulary = fitted.recipe.model, fitted.recipe.tokenizer.vocabulary
    square = model.width * model.width
    layers = 4 * square * (model.encoder_layers + 2 * model.decoder_layers)
    between = 2 * model.width * model.hidden * (model.encoder_layers + model.decoder_layers)
    products = layers + between + vocabulary * model.width
    tokens = fitted.recipe.training.steps * fitted.recipe.batches.tokens
    # Forward and backward are three products of two operations each.
    return 6 * products * tokens / (_products_per_second(device, model.width) * EFFICIENCY[device.type])


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

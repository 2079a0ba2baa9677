"""A recipe fitted to a text: which tokenizer, how large a model, how long a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.config import changed, parse_settings
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.progress import ProgressCallback, followed, unfollowed
from clearhead.data.sources.documents import check_texts
from clearhead.data.survey import Survey
from clearhead.models import GPTConfig
from clearhead.tasks.fitting import settled, steps_of
from clearhead.tasks.language.data import corpus_of, counted
from clearhead.tasks.language.recipe import LanguageRecipe, LanguageTraining, TextConfig
from clearhead.text.tokenizer import SPECIALS, TokenizerConfig
from clearhead.training.schedule import StableSchedule

# A text with more distinct characters is cut into bytes and what is merged of them.
MOST_CHARACTERS = 400
# Bytes that a token stands for, with a vocabulary that was learned from the same text.
BYTES_PER_TOKEN = 3.5
# Merges of a text too short for many of them.
FEW_MERGES = 1000


@dataclass(frozen=True)
class TextSize:
    """What suits texts of up to so many bytes."""

    bytes: float
    vocabulary: int | None
    """None: every character is a token"""
    layers: int
    width: int
    heads: int
    max_length: int
    dropout: float
    epochs: float
    tokens: int
    """a batch"""
    learning_rate: float
    """learning rate"""


SIZES = (
    TextSize(100_000, None, 2, 64, 2, 64, 0.1, 40, 1024, 1e-2),
    TextSize(5_000_000, None, 4, 128, 4, 128, 0.1, 10, 3072, 1e-2),
    TextSize(50_000_000, 4000, 6, 256, 4, 256, 0.1, 4, 8192, 5e-3),
    TextSize(500_000_000, 8000, 8, 512, 8, 512, 0.0, 2, 32768, 3e-3),
    TextSize(float("inf"), 32000, 12, 768, 12, 1024, 0.0, 1, 131072, 2e-3),
)


@dataclass(frozen=True)
class FittedText:
    """A recipe and what led to it."""

    recipe: LanguageRecipe
    survey: Survey
    tokens: int
    """in one epoch, about"""

    @property
    def products(self) -> int:
        """Multiplications for each token, forwards."""
        model = self.recipe.model
        return model.layers * (4 * model.width**2 + 2 * model.width * model.ffn_width) + (
            self.recipe.tokenizer.vocabulary * model.width
        )

    def choices(self) -> list[str]:
        """What was chosen, in words."""
        recipe, model, survey = self.recipe, self.recipe.model, self.survey
        epochs = recipe.training.steps * recipe.batches.tokens / self.tokens
        if recipe.tokenizer.kind == "character":
            cut = f"each of {len(survey.alphabet)} characters is a token"
        else:
            cut = f"bytes and what is merged of them, up to {recipe.tokenizer.vocabulary:,}"
        return [
            _text(survey),
            f"tokenizer: {cut}",
            f"model: width {model.width}, hidden {model.ffn_width}, {model.layers} layers, "
            f"{model.attention.heads} heads, sees {model.max_length} tokens, dropout {model.dropout}",
            f"run: {recipe.training.steps:,} steps of {recipe.batches.tokens:,} tokens ({epochs:.3g} "
            f"epochs), validated every {recipe.training.validate_every:,}; the best model is kept",
        ]


def fit_text(
    paths: Sequence[str], changes: Sequence[str] = (), follow: ProgressCallback = unfollowed
) -> FittedText:
    """Reads the text once and chooses by its size; changes of the form 'model.width=64' take precedence."""
    asked = changed({"data": {"train": list(paths)}}, changes)
    data = parse_settings(TextConfig, asked["data"], group="data")
    check_texts(data.paths)
    corpus = corpus_of(data, seed=1)
    corpus.example()
    with followed(corpus.paths(), follow):
        survey = corpus.survey
    size = next(size for size in SIZES if survey.bytes <= size.bytes)
    tokenizer = _tokenizer(size, survey)
    tokens = survey.characters if tokenizer.kind == "character" else int(survey.bytes / BYTES_PER_TOKEN)
    usual = max(200, int(size.epochs * tokens / size.tokens))
    recipe = _recipe(size, data, tokenizer, steps_of(asked, usual))
    return FittedText(settled(recipe, asked, changes), survey, max(1, tokens))


def _text(survey: Survey) -> str:
    told = f"text: {survey.characters:,} characters in {counted(len(survey), 'document')}"
    if survey.copies:
        told += f", of which {survey.copies:,} are copies of others"
    return told + (f"; {survey.blank:,} blank ones are left out" if survey.blank else "")


def _tokenizer(size: TextSize, survey: Survey) -> TokenizerConfig:
    """Characters for a short text of few different ones, else bytes with merges."""
    if size.vocabulary is None and len(survey.alphabet) <= MOST_CHARACTERS:
        # Room for all, also where validation has others than training: they are counted over both.
        return TokenizerConfig(kind="character", vocabulary=len(survey.alphabet) + len(SPECIALS))
    return TokenizerConfig(kind="bytes", vocabulary=size.vocabulary or FEW_MERGES)


def _recipe(size: TextSize, data: TextConfig, tokenizer: TokenizerConfig, steps: int) -> LanguageRecipe:
    """What suits the size, for so many steps."""
    every = max(50, min(2000, steps // 10))
    shape: dict[str, Any] = {
        "preset": "shakespeare",
        "width": size.width,
        "ffn_width": 4 * size.width,
        "layers": size.layers,
        "attention": {"heads": size.heads},
        "max_length": size.max_length,
        "dropout": size.dropout,
    }
    return LanguageRecipe(
        data=data,
        tokenizer=tokenizer,
        model=GPTConfig.model_validate(shape),
        batches=TextBatchingConfig(tokens=size.tokens),
        training=LanguageTraining(
            steps=steps,
            schedule=StableSchedule(
                learning_rate=size.learning_rate, warmup=max(1, min(500, steps // 20)), decay=0.5
            ),
            validate_every=every,
            save_every=every,
        ),
    )

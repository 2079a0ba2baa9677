"""A recipe sized to a text and to a time budget: tokenizer, model and length of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.batch import CropBatch
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.progress import ProgressCallback, ignore_progress, track_progress
from clearhead.data.sources.documents import check_texts
from clearhead.data.sources.prompts import usual_template
from clearhead.data.survey import Survey
from clearhead.models import GPTConfig
from clearhead.tasks.language.data import corpus_of
from clearhead.tasks.language.recipe import LanguageRecipe, LanguageTraining, TextConfig
from clearhead.tasks.language.task import language_loss
from clearhead.tasks.sizing import (
    VALIDATIONS,
    FittedRecipe,
    largest_affordable,
    setting,
    steps_of,
    with_changes,
)
from clearhead.text.tokenizer import SPECIAL_TOKENS, TokenizerConfig
from clearhead.training import TimeBudget
from clearhead.training.schedule import StableSchedule
from clearhead.wording import counted

# A text with more distinct characters gets a byte-level BPE tokenizer.
MAX_ALPHABET = 400
# Typical of a vocabulary trained on the same text.
BYTES_PER_TOKEN = 3.5
# The share of prompts that must fit into the context with their answers, and the longest context for them.
FITTING, MAX_CONTEXT = 0.98, 1024
# The vocabulary of a text that is too short for a large one.
SMALL_VOCABULARY = 1000
# A model is worth its size if it is trained on this many tokens per weight.
TOKENS_PER_WEIGHT = 10


@dataclass(frozen=True)
class TextSize:
    """Settings for texts of up to a number of bytes."""

    bytes: float
    vocabulary: int | None
    """None: one token per character."""
    layers: int
    width: int
    heads: int
    context_length: int
    dropout: float
    epochs: float
    batch_tokens: int
    learning_rate: float


SIZES = (
    TextSize(100_000, None, 2, 64, 2, 64, 0.1, 40, 1024, 1e-2),
    TextSize(5_000_000, None, 4, 128, 4, 128, 0.1, 10, 3072, 1e-2),
    TextSize(50_000_000, 4000, 6, 256, 4, 256, 0.1, 4, 8192, 5e-3),
    TextSize(500_000_000, 8000, 8, 512, 8, 512, 0.0, 2, 32768, 3e-3),
    TextSize(float("inf"), 32000, 12, 768, 12, 1024, 0.0, 1, 131072, 2e-3),
)
# Of a run that fine-tunes a model: passes over the text, tokens in all, peak learning rate, batch size.
TUNING_EPOCHS, TUNING_TOKENS, TUNING_RATE, TUNING_BATCH = 5, 2_000_000, 1e-3, 4096
# Maximum number of tokens added to its vocabulary for new letters.
NEW_TOKENS = 2000


@dataclass(frozen=True)
class FittedText(FittedRecipe):
    """A recipe and the text that it is sized to."""

    recipe: LanguageRecipe
    survey: Survey
    tokens: int
    """Estimated tokens per epoch."""
    planned_seconds: float | None = None
    """The estimated time of a run with a time budget."""

    def seconds(self, device: torch.device) -> float:
        return self.planned_seconds or super().seconds(device)

    def choices(self) -> list[str]:
        """The choices, one per line."""
        recipe, model, survey = self.recipe, self.recipe.model, self.survey
        epochs = recipe.training.steps * recipe.batches.tokens / self.tokens
        if recipe.tokenizer.kind == "character":
            tokens = f"{len(survey.alphabet)} characters"
        else:
            tokens = f"byte-level BPE, {recipe.tokenizer.vocabulary:,} tokens"
        template = recipe.data.template
        prompts = f"prompts with answers: set into {template!r}; only the answers are learned"
        return [
            text_line(survey),
            *([prompts] if template else []),
            f"tokenizer: {tokens}",
            f"model: width {model.width}, ffn_width {model.ffn_width}, {counted(model.layers, 'layer')}, "
            f"{counted(model.attention.heads, 'head')}, context of {model.context_length} tokens, "
            f"dropout {model.dropout}",
            f"run: {'about ' * bool(self.planned_seconds)}{counted(recipe.training.steps, 'step')} of "
            f"{recipe.batches.tokens:,} tokens "
            f"({epochs:.3g} epochs), validated every {recipe.training.validate_every:,}; "
            "the best model is kept",
        ]


def fit_text(
    paths: Sequence[str],
    changes: Sequence[str] = (),
    progress: ProgressCallback = ignore_progress,
    budget: TimeBudget | None = None,
) -> FittedText:
    """Reads the text once and sizes a recipe to it; changes such as 'model.width=64' take precedence.

    With a time budget, the model is the largest that learns enough in the time, as measured on this machine.
    """
    requested = apply_overrides({"data": {"train": list(paths)}}, changes)
    data = parse_settings(TextConfig, requested["data"], group="data")
    check_texts(data.paths, data.SHIPPED)
    if data.template is None and data.field is None and data.columns is None:
        templates = {usual_template(path) for path in data.train}
        data = data.model_copy(update={"template": templates.pop() if len(templates) == 1 else None})
    corpus = corpus_of(data, seed=1)
    corpus.example()
    with track_progress(corpus.paths(), progress):
        survey = corpus.survey
    if setting(requested, "training", "init_from"):
        return _tuned(data, survey, requested, changes)
    largest = next(number for number, size in enumerate(SIZES) if survey.bytes <= size.bytes)
    epochs = SIZES[largest].epochs

    def sized(size: TextSize, max_steps: int | None = None) -> tuple[LanguageRecipe, int]:
        """The recipe of a size, and the tokens of its epoch."""
        tokenizer = _tokenizer(size, survey)
        tokens = survey.characters if tokenizer.kind == "character" else int(survey.bytes / BYTES_PER_TOKEN)
        if data.template:
            size = _for_prompts(size, survey, tokens / survey.characters)
        usual = max(200, int(epochs * tokens / size.batch_tokens))
        steps = steps_of(requested, min(usual, max_steps or usual))
        every = max(20, steps // VALIDATIONS) if max_steps else max(50, min(2000, steps // 10))
        recipe = _recipe(size, data, tokenizer, steps, every)
        return with_changes(recipe, requested, changes), max(1, tokens)

    if budget is None:
        recipe, tokens = sized(SIZES[largest])
        return FittedText(recipe, survey, tokens)
    candidates = [sized(size)[0] for size in SIZES[: largest + 1]]
    chosen = largest_affordable(candidates, TOKENS_PER_WEIGHT, budget, _trial)
    seconds, budget.max_steps = budget.seconds_left, chosen.recipe.training.steps
    recipe, tokens = sized(SIZES[chosen.number], chosen.steps(seconds))
    return FittedText(recipe, survey, tokens, seconds * recipe.training.steps / chosen.steps(seconds))


def _trial(recipe: LanguageRecipe) -> tuple[Any, CropBatch]:
    """The loss of a recipe, and a batch."""
    row = recipe.batches.row_length or recipe.model.context_length
    ids = torch.randint(recipe.tokenizer.vocabulary, (max(1, recipe.batches.tokens // row), row + 1))
    loss = partial(language_loss, label_smoothing=recipe.training.label_smoothing)
    return loss, CropBatch(ids)


def _for_prompts(size: TextSize, survey: Survey, tokens_per_character: float) -> TextSize:
    """The same size with a context that nearly all prompts fit into with their answers."""
    long = tokens_per_character * float(np.quantile(survey.lengths, FITTING)) + len(SPECIAL_TOKENS)
    context = max(size.context_length, min(MAX_CONTEXT, 1 << int(long).bit_length()))
    return replace(size, context_length=context, batch_tokens=max(size.batch_tokens, 4 * context))


def _tuned(
    data: TextConfig, survey: Survey, requested: Mapping[str, Any], changes: Sequence[str]
) -> FittedText:
    """A short run at a low learning rate that falls to zero; the rest is the model's own."""
    whole = LanguageRecipe(data=data, batches=TextBatchingConfig(tokens=TUNING_BATCH))
    recipe = with_changes(whole, requested, changes)
    one = survey.characters if recipe.tokenizer.kind == "character" else int(survey.bytes / BYTES_PER_TOKEN)
    epochs = max(1.0, min(TUNING_EPOCHS, TUNING_TOKENS / max(1, one)))
    steps = steps_of(requested, max(50, int(epochs * one / TUNING_BATCH)))
    every = max(1, -(-steps // 8))
    training = LanguageTraining(
        steps=steps,
        schedule=StableSchedule(learning_rate=TUNING_RATE, warmup=max(1, steps // 20), decay=1.0),
        validate_every=every,
        save_every=every,
        patience=3,
        new_tokens=NEW_TOKENS,
    )
    recipe = whole.model_copy(update={"training": training})
    return FittedText(with_changes(recipe, requested, changes), survey, max(1, one))


def text_line(survey: Survey) -> str:
    """The size of a text in words."""
    about = f"text: {survey.characters:,} characters in {counted(len(survey), 'document')}"
    if survey.copies:
        about += f", {survey.copies:,} of them duplicates"
    return about + (f"; {survey.blank:,} blank ones are left out" if survey.blank else "")


def _tokenizer(size: TextSize, survey: Survey) -> TokenizerConfig:
    """Characters for a short text with a small alphabet, else byte-level BPE."""
    if size.vocabulary is None and len(survey.alphabet) <= MAX_ALPHABET:
        # The alphabet covers training and validation, so there is room for both.
        return TokenizerConfig(kind="character", vocabulary=len(survey.alphabet) + len(SPECIAL_TOKENS))
    return TokenizerConfig(kind="bytes", vocabulary=size.vocabulary or SMALL_VOCABULARY)


def _recipe(
    size: TextSize, data: TextConfig, tokenizer: TokenizerConfig, steps: int, every: int
) -> LanguageRecipe:
    """The recipe of a size, for a number of steps, validated every few."""
    shape: dict[str, Any] = {
        "preset": "shakespeare",
        "width": size.width,
        "ffn_width": 4 * size.width,
        "layers": size.layers,
        "attention": {"heads": size.heads},
        "context_length": size.context_length,
        "dropout": size.dropout,
    }
    return LanguageRecipe(
        data=data,
        tokenizer=tokenizer,
        model=GPTConfig.model_validate(shape),
        batches=TextBatchingConfig(tokens=size.batch_tokens),
        training=LanguageTraining(
            steps=steps,
            schedule=StableSchedule(
                learning_rate=size.learning_rate, warmup=max(1, min(500, steps // 20)), decay=0.5
            ),
            validate_every=every,
            save_every=every,
        ),
    )

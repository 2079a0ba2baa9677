"""The time that fine-tuning takes: its steps, and the scores of both models on two test sets."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from clearhead.data.batch import PairBatch
from clearhead.errors import ClearheadError
from clearhead.tasks.sizing import seconds_per_step
from clearhead.tasks.translation.directions import Direction
from clearhead.tasks.translation.evaluate import held_out_pairs
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import translation_loss
from clearhead.tasks.zoo import find
from clearhead.text.tokenizer import SPECIAL_TOKENS
from clearhead.training.budget import Clock

# Sentences by which the speed of translation is measured; more take as long per character.
TRIAL_SENTENCES = 32
# The model and its parent are both scored.
MODELS = 2


def trial(recipe: TranslationRecipe, length: int, tokens: int) -> tuple[Any, PairBatch]:
    """The loss of a recipe, and a batch of about this many tokens, in pairs of one length."""
    rows = max(1, tokens // (length + 1))
    ids = torch.randint(len(SPECIAL_TOKENS), recipe.tokenizer.vocabulary, (rows, length)).tolist()
    loss = partial(translation_loss, label_smoothing=recipe.training.label_smoothing)
    return loss, PairBatch.of(ids, ids)


def mean_batch(recipe: TranslationRecipe, tokens: int) -> int:
    """The mean number of tokens in a batch, for a corpus with this many target tokens.

    An epoch begins and ends with a partial batch: with few pairs, most batches are not full.
    """
    epoch, most = tokens / (1 - recipe.data.mix), recipe.batches.tokens
    return max(1, int(epoch / (epoch / most + 1)))


def tuning_seconds(
    recipe: TranslationRecipe,
    pairs: int,
    tokens: int,
    sources: Sequence[str],
    device: torch.device,
    clock: Clock = time.perf_counter,
) -> float:
    """The time of a fine-tuning run on this machine, measured by a few steps and translations."""
    batch = trial(recipe, max(1, tokens // pairs), mean_batch(recipe, tokens))
    steps = recipe.training.steps * seconds_per_step(recipe, *batch, clock)
    return steps + _comparison_seconds(recipe, list(sources), device, clock)


def _comparison_seconds(
    recipe: TranslationRecipe, sources: list[str], device: torch.device, clock: Clock
) -> float:
    """The time to translate the new test set and that of the parent by both models."""
    from clearhead.tasks.load import load

    parent = load(str(recipe.training.init_from), device)
    sources, target = sources[:TRIAL_SENTENCES], parent.directions[0].target
    parent.translate(sources[:1], target)  # builds the engine
    start = clock()
    parent.translate(sources, target)
    per_character = (clock() - start) / max(1, sum(map(len, sources)))
    mean = sum(map(len, sources)) / max(1, len(sources))
    characters = recipe.data.hold_out.test * mean
    characters += sum(_test_characters(recipe, direction) for direction in recipe.data.directions)
    return MODELS * per_character * characters


def _test_characters(recipe: TranslationRecipe, direction: Direction) -> int:
    """The characters in the sources of the parent's test set; 0 if it has none."""
    folder, _ = find(str(recipe.training.init_from))
    try:
        return sum(len(pair.source) for pair in held_out_pairs(None, folder, direction).pairs)
    except ClearheadError:
        return 0

"""Fine-tuning of translators: the settings of a run that starts from a trained model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.batching.buckets import BatchingConfig
from clearhead.errors import DataError
from clearhead.tasks.sizing import setting, steps_of, with_changes
from clearhead.tasks.translation.recipe import (
    DataConfig,
    TranslationRecipe,
    TranslationTraining,
    ValidationConfig,
)
from clearhead.training.schedule import StableSchedule


@dataclass(frozen=True)
class TuningSize:
    """Settings for corpora of up to a number of pairs."""

    pairs: float
    epochs: float
    batch_tokens: int
    dropout: float


# One epoch needs no dropout, which costs time and holds the model back.
TUNING_SIZES = (
    TuningSize(2_000, 10, 1024, 0.2),
    TuningSize(10_000, 4, 2048, 0.1),
    TuningSize(40_000, 1.2, 2048, 0.0),
    TuningSize(float("inf"), 1, 2048, 0.0),
)
LEARNING_RATE = 1.2e-3
# Maximum number of pairs held out for each of validation and test; both models are measured on them.
TUNING_HELD_OUT = 500
VALIDATIONS, PATIENCE = 8, 3
# Share of pairs from the parent's data, if it is there.
MIX = 0.2
# Maximum number of tokens added to the vocabulary for new letters.
NEW_TOKENS = 2000


def tuned_recipe(
    data: DataConfig, pairs: int, tokens: int, requested: Mapping[str, Any], changes: Sequence[str]
) -> tuple[TranslationRecipe, tuple[str, ...]]:
    """The recipe of a short run for pairs with so many target tokens, and notes on what it cannot do.

    The learning rate is low and falls to zero. The requested changes take precedence.
    """
    size = next(size for size in TUNING_SIZES if pairs <= size.pairs)
    # The model is the parent's, but for its dropout.
    changes = [f"model.dropout={size.dropout}", *changes]
    if setting(requested, "data", "mix") is not None:
        return with_changes(_recipe(data, size, tokens, requested), requested, changes), ()
    mixed = data.model_copy(update={"mix": MIX})
    try:
        return with_changes(_recipe(mixed, size, tokens, requested), requested, changes), ()
    except DataError as error:
        recipe = with_changes(_recipe(data, size, tokens, requested), requested, changes)
        return recipe, (f"without pairs of the parent: {str(error).removeprefix('data.mix: ')}",)


def _recipe(
    data: DataConfig, size: TuningSize, tokens: int, requested: Mapping[str, Any]
) -> TranslationRecipe:
    epoch = max(1, int(tokens / (1 - data.mix)) // size.batch_tokens)
    steps = steps_of(requested, max(50, int(size.epochs * epoch)))
    every = -(-steps // VALIDATIONS)
    return TranslationRecipe(
        data=data,
        batches=BatchingConfig(tokens=size.batch_tokens),
        training=TranslationTraining(
            init_from=requested["training"]["init_from"],
            new_tokens=NEW_TOKENS,
            steps=steps,
            schedule=StableSchedule(learning_rate=LEARNING_RATE, warmup=max(1, steps // 20), decay=1.0),
            validate_every=every,
            save_every=every,
            patience=PATIENCE,
        ),
        # The scores before and after fine-tuning have the BLEU.
        validation=ValidationConfig(sentences=0),
    )

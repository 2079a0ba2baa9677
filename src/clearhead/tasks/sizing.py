"""Sizing of recipes to the data and to a time budget: the parts that tasks share, and estimated times."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.models import MODELS
from clearhead.tasks.recipe import Recipe
from clearhead.training import TimeBudget, Trainer
from clearhead.training.budget import Clock

# Speed of a training step relative to plain matrix products.
EFFICIENCY = {"cpu": 0.7, "cuda": 0.2}
R = TypeVar("R", bound=Recipe)
# The speed of a shape is measured by this many steps after the first, or those of this many seconds.
TRIAL_STEPS, TRIAL_SECONDS = 4, 1.5
# The share of a budget that validations, saves and the preparation of the data are expected to take.
BESIDES_STEPS = 0.15
# Dropout of a run so short that the model does not overfit, and the share of the usual epochs up to which.
LOW_DROPOUT, SHORT_RUN = 0.1, 0.25
# Validations of a run with a time budget.
VALIDATIONS = 5


class Measured(NamedTuple):
    """A candidate for a time budget, and the time of one of its steps."""

    recipe: Any
    number: int
    """Among the candidates."""
    seconds_per_step: float

    def steps(self, seconds: float) -> int:
        """The steps that fit into a time, which also covers what comes between them."""
        return max(1, int((1 - BESIDES_STEPS) * seconds / self.seconds_per_step))


class FittedRecipe(ABC):
    """A recipe and the data that it is sized to."""

    recipe: Any

    @property
    def warning(self) -> str:
        """Why the model will hardly be usable, and what would help; empty if it should be usable."""
        return ""

    @abstractmethod
    def choices(self) -> list[str]:
        """The choices, one per line."""

    def seconds(self, device: torch.device) -> float:
        """The estimated time of the run on a device."""
        return estimate_seconds(self.recipe, device)


def with_changes(recipe: R, requested: Mapping[str, Any], changes: Sequence[str]) -> R:
    """The recipe after the user's changes; a requested kind, preset or init_from replaces the sized model.

    A parent or teacher also replaces the sized tokenizer.
    """
    values: dict[str, Any] = recipe.model_dump(mode="json", exclude_none=True)
    kind = setting(requested, "model", "kind") or recipe.model.kind
    preset = setting(requested, "model", "preset")
    if setting(requested, "training", "init_from") or preset or kind != recipe.model.kind:
        del values["model"]
    if any(setting(requested, "training", name) for name in ("init_from", "distillation")):
        values.pop("tokenizer", None)
    return parse_settings(type(recipe), apply_overrides(values, changes)).inherited()


def steps_of(requested: Mapping[str, Any], usual: int) -> int:
    """The requested number of steps, or the usual one; parsing refuses a wrong value later."""
    return count_of(requested, "training", "steps", usual)


def count_of(requested: Mapping[str, Any], group: str, name: str, usual: int) -> int:
    """A requested number, or the usual one; parsing refuses a wrong value later."""
    count = setting(requested, group, name)
    return count if isinstance(count, int) and count > 0 else usual


def dropout_for(usual: float, share: float) -> float:
    """The dropout of a run that has a share of the usual epochs: a short one does not overfit."""
    long = min(1.0, max(0.0, (share - SHORT_RUN) / (1 - SHORT_RUN)))
    low = min(LOW_DROPOUT, usual)
    return round(low + long * (usual - low), 2)


def setting(requested: Mapping[str, Any], group: str, name: str) -> Any:
    """The value of a requested setting, or None."""
    settings = requested.get(group)
    return settings.get(name) if isinstance(settings, Mapping) else None


def largest_affordable(
    candidates: Sequence[Any],
    tokens_per_weight: float,
    budget: TimeBudget,
    trial: Callable[[Any], tuple[Callable[[Any, Any], torch.Tensor], Any]],
) -> Measured:
    """The largest of the recipes, which grow, that is trained on enough tokens per weight in the time.

    `trial` returns the loss and a batch of a recipe. Measuring ends at the first recipe that is too large.
    """
    chosen = None
    for number, recipe in enumerate(candidates):
        measured = Measured(recipe, number, seconds_per_step(recipe, *trial(recipe), budget.clock))
        enough = tokens_per_weight * matrix_weights(recipe)
        if chosen and measured.steps(budget.seconds_left) * recipe.batches.tokens < enough:
            break
        chosen = measured
    assert chosen
    return chosen


def seconds_per_step(
    recipe: Any, loss: Callable[[Any, Any], torch.Tensor], batch: Any, clock: Clock = time.perf_counter
) -> float:
    """The time of a training step of a recipe on this machine; compiling, which pays later, is left out."""
    model = MODELS[recipe.model.kind](recipe.model, recipe.tokenizer.vocabulary)
    # A short run has fewer steps than are measured.
    changes = {"compile": "off", "steps": max(recipe.training.steps, 1 + TRIAL_STEPS)}
    trainer = Trainer(model, loss, recipe.training.model_copy(update=changes).resolved(False))
    steps = trainer.steps(repeat(batch))
    next(steps)
    trainer.synchronize()
    start, count = clock(), 0
    while count < TRIAL_STEPS and (count == 0 or clock() - start < TRIAL_SECONDS):
        next(steps)
        trainer.synchronize()
        count += 1
    return (clock() - start) / count


def matrix_weights(recipe: Any) -> int:
    """The number of weights that each token is multiplied with."""
    with torch.device("meta"):
        model = MODELS[recipe.model.kind](recipe.model, recipe.tokenizer.vocabulary)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.ndim == 2)


def estimate_seconds(recipe: Any, device: torch.device) -> float:
    """The estimated time of a run on a device, from its speed in plain matrix products."""
    tokens = recipe.training.steps * recipe.batches.tokens
    speed = flops_per_second(device, recipe.model.width) * EFFICIENCY[device.type]
    # Forward and backward are three products of two operations each.
    return 6 * matrix_weights(recipe) * tokens / speed


def flops_per_second(device: torch.device, width: int) -> float:
    """Operations per second in matrix products of the model's shape: the best of a few trials."""
    left, right = torch.randn(1024, width, device=device), torch.randn(width, 4 * width, device=device)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        torch.stack([left @ right for _ in range(8)]).sum().item()
        seconds.append(time.perf_counter() - start)
    return 8 * 2 * 1024 * width * 4 * width / min(seconds)

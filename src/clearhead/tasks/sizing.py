"""Sizing of recipes to the data: the parts that tasks share, and the estimated time of a run."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.models import MODELS
from clearhead.tasks.recipe import Recipe

# Speed of a training step relative to plain matrix products.
EFFICIENCY = {"cpu": 0.7, "cuda": 0.2}
R = TypeVar("R", bound=Recipe)


class FittedRecipe(ABC):
    """A recipe and the data that it is sized to."""

    recipe: Any

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
    steps = setting(requested, "training", "steps")
    return steps if isinstance(steps, int) and steps > 0 else usual


def setting(requested: Mapping[str, Any], group: str, name: str) -> Any:
    """The value of a requested setting, or None."""
    settings = requested.get(group)
    return settings.get(name) if isinstance(settings, Mapping) else None


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

"""What becomes of a recipe that was fitted to some data when something is asked for beside it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from clearhead.config import apply_overrides, parse_settings
from clearhead.tasks.init_from import inherited
from clearhead.tasks.recipes import Recipe

R = TypeVar("R", bound=Recipe)


def settled(recipe: R, asked: Mapping[str, Any], changes: Sequence[str]) -> R:
    """The recipe after the changes; a preset that is named, or a model to begin with, is not fitted."""
    values = recipe.model_dump(mode="json", exclude_none=True)
    if options(asked, "training", "init_from") or options(asked, "model", "preset"):
        del values["model"]
    found = inherited(parse_settings(type(recipe), apply_overrides(values, changes)))
    assert isinstance(found, type(recipe))
    return found


def steps_of(asked: Mapping[str, Any], usual: int) -> int:
    """As many steps as were asked for, or else the usual; what is no number of them is refused later."""
    steps = options(asked, "training", "steps")
    return steps if isinstance(steps, int) and steps > 0 else usual


def options(asked: Mapping[str, Any], group: str, setting: str) -> Any:
    """The value of a setting, if it was asked for; what is no group of settings is refused later, by name."""
    settings = asked.get(group)
    return settings.get(setting) if isinstance(settings, Mapping) else None

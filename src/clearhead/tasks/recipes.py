"""Reading of recipes; `kind` names the task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead import assets, tasks
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.errors import SettingsError

DEFAULT = "translation"


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Any:
    """The recipe in a file, or a shipped one by its name, after changes of the form 'a.b=value'."""
    path = assets.recipe_path(path)
    return parse_recipe(apply_overrides(read_toml(path), changes), location=str(path))


def parse_recipe(values: Mapping[str, Any], location: str = "") -> Any:
    """The recipe that values describe; without a kind, they describe a translation."""
    kind = values.get("kind", DEFAULT)
    if kind in tasks.TASKS:
        return parse_settings(tasks.TASKS[kind].Recipe, values, location)
    prefix = f"{location}: " if location else ""
    problems = [f"{prefix}kind: {kind!r} is not one of {', '.join(tasks.TASKS)}"]
    try:
        # Report the other mistakes too, as those of the most likely kind.
        others = {name: value for name, value in values.items() if name != "kind"}
        parse_settings(tasks.TASKS[DEFAULT].Recipe, others, location)
    except SettingsError as error:
        problems += error.problems
    raise SettingsError(*problems)

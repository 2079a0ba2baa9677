"""Recipes: their base class, and reading them from files; `kind` names the task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from clearhead import assets, tasks
from clearhead.config import Settings, apply_overrides, parse_settings, read_toml
from clearhead.errors import SettingsError
from clearhead.training import TrainingConfig

DEFAULT_TASK = "translation"


class Recipe(Settings):
    """All settings of a run; a task subclasses it and adds its data."""

    kind: Any
    """The task's name in TASKS."""
    model: Any
    training: TrainingConfig = TrainingConfig()

    def absolute(self) -> Self:
        """The same recipe with absolute paths, so that a run can be resumed from any folder."""
        return self

    def check_average(self, holds_out: bool, nothing: str) -> None:
        """Raises ValueError if the best weights are averaged, but nothing is held out to find them."""
        if self.training.average and self.training.average.of == "best" and not holds_out:
            raise ValueError(f"training.average.of is 'best', but {nothing} held out for validation")

    @property
    def has_test_data(self) -> bool:
        """Whether `clearhead evaluate` finds data by itself: files of the recipe, or what is held out."""
        data = getattr(self, "data", None)
        return bool(getattr(data, "test", None) or getattr(data, "holds_out", True))

    def inherited(self) -> Self:
        """The same recipe with the architecture and processor of the model that it starts from."""
        return self

    def resolved(self, on_gpu: bool) -> Self:
        """The same recipe with every "auto" replaced by a choice, so that a resumed run keeps it."""
        training = self.training.resolved(on_gpu, getattr(self.model, "width", None))
        return self.model_copy(update={"training": training})

    def resume_settings(self) -> dict[str, Any]:
        """The groups of settings that must not change on resume; data files are compared by content."""
        return self.model_dump(mode="json", exclude={"kind"})

    @classmethod
    def variants(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Names that select a part of a trained model, by its saved settings: a translator's directions."""
        return ()

    @classmethod
    def usage(cls, settings: Mapping[str, Any]) -> str:
        """The options that commands need for a trained model, by its saved settings: " --to de"."""
        return ""


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Any:
    """The recipe in a file, or a shipped one by its name, after changes of the form 'a.b=value'."""
    path = assets.recipe_path(path)
    return parse_recipe(apply_overrides(read_toml(path), changes), location=str(path))


def parse_recipe(values: Mapping[str, Any], location: str = "") -> Any:
    """The recipe that values describe; without a kind, they describe a translation."""
    kind = values.get("kind", DEFAULT_TASK)
    if kind in tasks.TASKS:
        return parse_settings(tasks.TASKS[kind].Recipe, values, location)
    prefix = f"{location}: " if location else ""
    problems = [f"{prefix}kind: {kind!r} is not one of {', '.join(tasks.TASKS)}"]
    try:
        # Report the other mistakes too, as those of the most likely kind.
        others = {name: value for name, value in values.items() if name != "kind"}
        parse_settings(tasks.TASKS[DEFAULT_TASK].Recipe, others, location)
    except SettingsError as error:
        problems += error.problems
    raise SettingsError(*problems)

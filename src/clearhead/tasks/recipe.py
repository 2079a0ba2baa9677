"""What every recipe has: a kind, a model, how it is trained, and what a resumed run must keep."""

from collections.abc import Mapping
from typing import Any, Self

from clearhead.config import Settings
from clearhead.training import TrainingConfig

# Compiling takes half a minute: a shorter run does not earn it back.
MIN_STEPS_TO_COMPILE = 2000


class Recipe(Settings):
    """Everything that decides the result of a run. A task subclasses it and adds its data."""

    kind: Any
    """The task's name in TASKS."""
    model: Any
    training: Any = TrainingConfig()

    def absolute(self) -> Self:
        """The same recipe with absolute paths, so that a run can be resumed from any folder."""
        return self

    def inherited(self) -> Self:
        """The same recipe with the shape and processor of the model that it starts from."""
        return self

    def resolved(self, on_gpu: bool) -> Self:
        """The same recipe with every "auto" decided, so that a resumed run continues as it began."""
        if self.training.compile != "auto":
            return self
        compile = "on" if on_gpu and self.training.steps >= MIN_STEPS_TO_COMPILE else "off"
        return self.model_copy(update={"training": self.training.model_copy(update={"compile": compile})})

    def resume_settings(self) -> dict[str, Any]:
        """The groups of settings that a resumed run must keep; data is recognised by its content."""
        return self.model_dump(mode="json", exclude={"kind"})

    @classmethod
    def variants(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The names that select a part of a trained model, by its saved settings: a translator's directions."""
        return ()

    @classmethod
    def usage(cls, settings: Mapping[str, Any]) -> str:
        """The options that commands need for a trained model, by its saved settings: " --to de"."""
        return ""

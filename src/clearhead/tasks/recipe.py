"""The base class of recipes."""

from collections.abc import Mapping
from typing import Any, Self

from clearhead.config import Settings
from clearhead.training import TrainingConfig


class Recipe(Settings):
    """All settings of a run; a task subclasses it and adds its data."""

    kind: Any
    """The task's name in TASKS."""
    model: Any
    training: TrainingConfig = TrainingConfig()

    def absolute(self) -> Self:
        """The same recipe with absolute paths, so that a run can be resumed from any folder."""
        return self

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

"""Settings of a run that trains word vectors."""

from typing import Any, ClassVar, Literal, Self

from pydantic import PositiveInt, field_validator, model_validator

from clearhead.config import Settings
from clearhead.data.batching.windows import WindowsConfig
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS, absolute_path
from clearhead.models.word_vectors import WordVectorsConfig
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import RequiredFiles
from clearhead.training import TrainingConfig
from clearhead.training.schedule import ScheduleConfig, StableSchedule


class WordsConfig(Settings):
    """The training text."""

    train: RequiredFiles
    """Files, folders or shipped data by name; no window crosses the end of a line."""
    field: int | str | None = None
    """Column of .tsv and .csv files, numbered from 0 or named, or field of records, that holds the text."""
    lower: bool = True
    """Whether words are lower-cased."""
    min_count: PositiveInt = 5
    """Words that occur less often are left out."""

    def absolute(self) -> "WordsConfig":
        """The same data with absolute paths."""
        shipped = SHIPPED | SHIPPED_TEXTS
        return self.model_copy(update={"train": tuple(absolute_path(file, shipped) for file in self.train)})


class WordVectorsTraining(TrainingConfig):
    """The learning rate falls linearly to zero, as in word2vec, from twice its value there."""

    # Plain gradient descent has no optimizer, and nothing is held out for validation.
    UNUSED: ClassVar[tuple[str, ...]] = (
        *("optimizer", "accumulate", "parallel", "clip_norm", "init_from", "ema_decay"),
        *("validate_every", "keep_best", "monitor", "patience"),
    )

    epochs: PositiveInt = 5
    steps: PositiveInt | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """Default: all steps of the epochs."""
    schedule: ScheduleConfig = StableSchedule(learning_rate=0.05, warmup=0, decay=1.0)
    precision: Literal["fp32"] = "fp32"  # pyright: ignore[reportIncompatibleVariableOverride]
    compile: Literal["off"] = "off"  # pyright: ignore[reportIncompatibleVariableOverride]
    save_every: PositiveInt = 5000

    @model_validator(mode="after")
    def _check_unused(self) -> Self:
        for name in self.UNUSED:
            if getattr(self, name) != TrainingConfig.model_fields[name].default:
                raise ValueError(f"{name} has no effect on word vectors; leave it out")
        return self


class WordVectorsRecipe(Recipe):
    """A run that trains word vectors."""

    kind: Literal["word_vectors"] = "word_vectors"
    data: WordsConfig
    model: WordVectorsConfig = WordVectorsConfig()
    batches: WindowsConfig = WindowsConfig()
    training: WordVectorsTraining = WordVectorsTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @field_validator("model")
    @classmethod
    def _check_contexts(cls, model: WordVectorsConfig) -> WordVectorsConfig:
        if not model.contexts:
            raise ValueError("contexts is false, but training needs the vectors of contexts")
        return model

    @property
    def has_test_data(self) -> bool:
        return False

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"})
        return {**groups, "data": self.data.model_dump(mode="json", exclude={"train"})}

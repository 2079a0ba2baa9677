"""Settings of data in files for training, validation and test."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, field_validator

from clearhead.checkpoint import SETTINGS
from clearhead.config import Settings, parse_settings, read_toml


def check_named(files: tuple[str, ...], *, source: str = "a file") -> tuple[str, ...]:
    """The files; raises ValueError if there are none."""
    if not files:
        raise ValueError(f"is empty; name {source}")
    return files


Files = Annotated[tuple[str, ...], Field(strict=False)]
RequiredFiles = Annotated[Files, AfterValidator(check_named)]
"""At least one."""
PARTS = ("train", "validation", "test")


class SplitFiles(Settings):
    """Files in three parts; a subclass says what they hold, and how much of it is held out."""

    SOURCE: ClassVar[str] = "a file"
    """What a path names."""

    train: Files
    validation: Files = ()
    """Default: a part of the training data (see hold_out)."""
    test: Files = ()
    """What `clearhead evaluate` measures on by default."""

    @field_validator("train")
    @classmethod
    def _check_files(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        return check_named(files, source=cls.SOURCE)

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """The data of the run in a folder; an imported model has none."""
        data = read_toml(folder / SETTINGS).get("data")
        if not isinstance(data, dict):
            return cls.model_construct(train=())
        return parse_settings(cls, data, str(folder), "data")

    def absolute(self) -> Self:
        """The same data with absolute paths."""
        parts = {part: tuple(str(Path(file).absolute()) for file in getattr(self, part)) for part in PARTS}
        return self.model_copy(update=parts)

    def without_files(self) -> dict[str, Any]:
        """All settings but the paths: files are recognised by their content."""
        return self.model_dump(mode="json", exclude={*PARTS})

    @property
    def paths(self) -> list[str]:
        """All files of the run."""
        return [*self.train, *self.validation, *self.test]

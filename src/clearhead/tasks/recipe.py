"""What a translation recipe says: the settings of every room, in one file."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from clearhead.config import Settings
from clearhead.data.batching import BatchingConfig
from clearhead.data.cleaning import CleaningConfig
from clearhead.data.corpus import Place
from clearhead.data.datasets import SHIPPED
from clearhead.errors import TextError
from clearhead.models import TranslatorConfig
from clearhead.text.languages import check
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig

# A file or a shipped data set by name; or two aligned files, the source's first.
File = Annotated[str | tuple[str, str], Field(union_mode="left_to_right")]
Files = Annotated[tuple[File, ...], Field(strict=False)]
Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]


class HoldOut(Settings):
    """How many pairs are kept from training where no files are given for the purpose."""

    validation: NonNegativeInt = 1000
    test: NonNegativeInt = 1000


class DataConfig(Settings):
    """Where the pairs are, and what of them is used."""

    source: str
    target: str
    train: Files
    """Files, shipped data sets by name, or lists of two aligned files."""
    validation: Files = ()
    """Left out: pairs of the training files, see hold_out."""
    test: Files = ()
    """Left out: pairs of the training files, see hold_out."""
    hold_out: HoldOut = HoldOut()
    columns: Columns | None = None
    """Numbers from 0 or names in the header, source first; left out, the customary ones."""
    cleaning: CleaningConfig = CleaningConfig()

    @field_validator("source", "target")
    @classmethod
    def _is_a_language(cls, code: str) -> str:
        try:
            return check(code)
        except TextError as error:
            raise ValueError(str(error)) from None

    @field_validator("train", "validation", "test", mode="before")
    @classmethod
    def _names_files(cls, files: object, info: ValidationInfo) -> object:
        """Aligned files are lists in TOML, and tuples from here on."""
        if not isinstance(files, list | tuple):
            raise ValueError(f"{files!r} is not a list of files; write [{files!r}]")
        if not files and info.field_name == "train":
            raise ValueError("names no file")
        for file in files:
            if not isinstance(file, str) and not (isinstance(file, list | tuple) and len(file) == 2):
                raise ValueError(f"{file!r} is neither a file nor two aligned ones, source first")
        return tuple(tuple(file) if isinstance(file, list) else file for file in files)

    def anchored(self) -> "DataConfig":
        """The same with whole paths, so that a run can be resumed from any folder."""
        parts = {part: tuple(map(_whole, getattr(self, part))) for part in ("train", "validation", "test")}
        return self.model_copy(update=parts)

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def places(self) -> list[Place]:
        """Everything that training reads, for naming what was made of it."""
        return [*self.train, *self.validation, *self.test]


def _whole(file: str | tuple[str, str]) -> str | tuple[str, str]:
    if isinstance(file, tuple):
        return str(Path(file[0]).absolute()), str(Path(file[1]).absolute())
    return file if file in SHIPPED and not Path(file).exists() else str(Path(file).absolute())


class ValidationConfig(Settings):
    """How a run looks at itself: the loss always, and BLEU of so many of the sentences."""

    sentences: NonNegativeInt = 500
    beam: PositiveInt = 1


class SearchConfig(Settings):
    """How the finished model looks for translations unless asked otherwise."""

    beam: PositiveInt = 5
    alpha: Annotated[float, Field(ge=0, le=10)] = 0.6
    """The length penalty's power; 0 leaves lengths alone."""


class TranslationRecipe(Settings):
    """Everything that decides what a run will give."""

    kind: Literal["translation"] = "translation"
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: TranslatorConfig = TranslatorConfig()
    batches: BatchingConfig = BatchingConfig()
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _rows_suit_the_model(self) -> "TranslationRecipe":
        if self.batches.kind == "packed" and not self.model.packs:
            raise ValueError(
                "batches.kind is 'packed', but fraction positions and the location score need a row for each "
                "sentence; use 'padded'"
            )
        return self

    def settled(self, on_gpu: bool) -> "TranslationRecipe":
        """The same with nothing left to be chosen by the machine, so that a run goes on as it began."""
        if self.batches.kind != "auto":
            return self
        kind = "packed" if on_gpu and self.model.packs else "padded"
        return self.model_copy(update={"batches": self.batches.model_copy(update={"kind": kind})})

    @model_validator(mode="after")
    def _what_stops_the_run_is_measured(self) -> "TranslationRecipe":
        held_out = self.data.validation or self.data.hold_out.validation
        if self.training.stop_on == "bleu" and not (held_out and self.validation.sentences):
            raise ValueError("training.stop_on is 'bleu', but no sentences are kept for validation")
        if self.training.average and self.training.average.of == "best" and not held_out:
            raise ValueError("training.average.of is 'best', but no sentences are kept for validation")
        return self

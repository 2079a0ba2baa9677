"""Settings of a language-modelling run."""

from string import Formatter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from clearhead.config import Settings
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS, Dataset, absolute_path, is_shipped
from clearhead.data.sources.documents import files
from clearhead.data.sources.prompts import ANSWER, PROMPT
from clearhead.data.sources.streams import suffix
from clearhead.data.survey import FEW_DOCUMENTS
from clearhead.models import GPTConfig
from clearhead.tasks.init_from import INIT_FROM, tokenizer_of, with_init_from
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import Files, RequiredFiles
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import MuonConfig, OptimizerConfig
from clearhead.training.schedule import ScheduleConfig, StableSchedule

Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]
# The file in a run's folder that holds its held-out text.
VALIDATION = "validation.jsonl"


class TextHoldOut(Settings):
    """How much of the training text to hold out if no validation files are given."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the characters: whole documents, or the end of each if there are only a few long ones."""
    most: NonNegativeInt = 1_000_000
    """Maximum number of characters; for prompts with answers, of pairs."""


class PlainTextConfig(Settings):
    """Running text, and what of it is held out."""

    FILES: ClassVar[tuple[str, ...]] = ("train", "validation")
    SHIPPED: ClassVar[dict[str, Dataset]] = SHIPPED_TEXTS
    """The data in the package that can be named instead of a file."""

    train: RequiredFiles
    """Files, folders, or shipped texts by name; plain text, .jsonl or .parquet, compressed or not."""
    validation: Files = ()
    """Default: a part of the training text (see hold_out)."""
    field: str | None = None
    """The field of .jsonl or .parquet records that holds the text. Default: found by its usual names."""
    hold_out: TextHoldOut = TextHoldOut()

    def absolute(self) -> Self:
        """The same data with absolute paths."""
        parts = {
            part: tuple(absolute_path(file, self.SHIPPED) for file in getattr(self, part))
            for part in self.FILES
        }
        return self.model_copy(update=parts)

    def without_files(self) -> dict[str, Any]:
        """All settings but the paths: files are recognised by their content."""
        return self.model_dump(mode="json", exclude={*self.FILES})

    @property
    def paths(self) -> list[str]:
        """All files that the run reads."""
        return [*self.train, *self.validation]

    @property
    def holds_out(self) -> bool:
        """Whether there will be text for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)


class TextConfig(PlainTextConfig):
    """The training text: of shipped pairs, the distinct sentences of the first column."""

    SHIPPED: ClassVar = SHIPPED | SHIPPED_TEXTS

    template: str | None = None
    """Text with {prompt} and then {answer}, for files of such pairs; the loss covers only the answers."""
    columns: Columns | None = None
    """Columns of prompts and answers, numbered from 0 or named. Default: found by their usual names, also in
    chats and instructions."""

    @field_validator("template")
    @classmethod
    def _check_template(cls, template: str | None) -> str | None:
        if template is not None:
            try:
                names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
            except ValueError as error:
                raise ValueError(
                    f"{template!r} is not a valid template ({error}); double the braces of the text"
                ) from None
            # The template is split at {answer}, which a format or doubled braces around it would hide.
            if names != [PROMPT, ANSWER] or template.count(f"{{{ANSWER}}}") != 1:
                others = set(names) - {PROMPT, ANSWER}
                way = "; double the braces of the text: {{ and }}" if others else ""
                raise ValueError(
                    f"{template!r} must name {{{PROMPT}}} once and after it {{{ANSWER}}} once{way}"
                )
        return template

    @property
    def is_few_texts(self) -> bool:
        """Whether the data is a few plain text files, to be cropped instead of packed."""
        if self.template or any(is_shipped(name, SHIPPED) for name in self.train):
            return False
        found = [path for name in self.train for path in files(name)]
        return len(found) < FEW_DOCUMENTS and all(
            suffix(path) not in (".jsonl", ".ndjson", ".json", ".parquet") for path in found
        )


class LanguageTraining(TrainingConfig):
    """Defaults for a small model on a few megabytes of text."""

    steps: Annotated[int, Field(gt=0)] = 5000
    optimizer: OptimizerConfig = MuonConfig()
    schedule: ScheduleConfig = StableSchedule(learning_rate=3e-3, warmup=100, decay=0.4)
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    monitor: Literal["loss"] = "loss"  # pyright: ignore
    """Validation metric that selects the best weights."""


class LanguageRecipe(Recipe):
    """A run that trains a language model."""

    kind: Literal["language"] = "language"
    data: TextConfig
    tokenizer: TokenizerConfig = TokenizerConfig(kind="bytes")
    model: GPTConfig = GPTConfig()
    batches: TextBatchingConfig = TextBatchingConfig()
    training: LanguageTraining = LanguageTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @field_validator("tokenizer")
    @classmethod
    def _check_tokenizer(cls, tokenizer: TokenizerConfig) -> TokenizerConfig:
        if tokenizer.normalize or tokenizer.dropout:
            raise ValueError("normalize and dropout would change the text; leave them out")
        return tokenizer.model_copy(update={"normalize": False})

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        # An inherited tokenizer is used as it is.
        if self.tokenizer.kind not in ("bytes", "character") and not self.training.init_from:
            raise ValueError(
                f"tokenizer.kind {self.tokenizer.kind} does not keep white space; use bytes or character"
            )
        if self.batches.row_length and self.batches.row_length > self.model.context_length:
            raise ValueError(
                f"batches.row_length {self.batches.row_length} exceeds model.context_length "
                f"{self.model.context_length}"
            )
        if self.data.template and self.batches.kind == "crops":
            raise ValueError("batches.kind is 'crops', which splits prompts from answers; use 'packed'")
        self.check_average(self.data.holds_out, "no text is")
        return self

    @property
    def has_test_data(self) -> bool:
        return self.data.holds_out and not self.data.validation

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resolved(self, on_gpu: bool) -> Self:
        batches = self.batches
        if batches.row_length is None:
            batches = batches.model_copy(update={"row_length": self.model.context_length})
        if batches.kind == "auto":
            kind = "crops" if self.data.is_few_texts else "packed"
            batches = batches.model_copy(update={"kind": kind})
        return super().resolved(on_gpu).model_copy(update={"batches": batches})

    def inherited(self) -> Self:
        return with_init_from(self)

    def inherited_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the model that the run starts from."""
        return tokenizer_of({INIT_FROM: self.training.init_from})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"})
        return {**groups, "data": self.data.without_files()}

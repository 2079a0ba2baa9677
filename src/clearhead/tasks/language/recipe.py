"""What the recipe of a language model says: the settings of every room, in one file."""

from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from clearhead.config import Settings
from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.datasets import SHIPPED_TEXTS
from clearhead.data.sources.documents import files
from clearhead.data.sources.streams import ending
from clearhead.data.survey import FEW
from clearhead.models import GPTConfig
from clearhead.tasks.translation.recipe import Columns
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import MuonConfig, OptimizerConfig
from clearhead.training.schedule import ScheduleConfig, StableSchedule

Texts = Annotated[tuple[str, ...], Field(strict=False)]
PROMPT, ANSWER = "prompt", "answer"


class TextHoldOut(Settings):
    """How much is kept from training where no files are given for validation."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Of the characters: whole documents, copies counted once; of a few long ones, the end of each."""
    most: NonNegativeInt = 1_000_000
    """Characters; of prompts with answers, pairs."""


class TextConfig(Settings):
    """Which text a model learns from."""

    train: Texts
    """Files, folders of them, or shipped texts by name; plain text, .jsonl or .parquet, packed or not."""
    validation: Texts = ()
    """Left out: a part of the training text, see hold_out."""
    field: str | None = None
    """Of a record in .jsonl or .parquet, that which holds the text; left out, the customary one."""
    template: str | None = None
    """With {prompt} and then {answer}: the files hold pairs of these, and only the answers are learned."""
    columns: Columns | None = None
    """Of pairs: numbers from 0 or names, the prompt's first; left out, 'prompt' and 'answer'."""
    hold_out: TextHoldOut = TextHoldOut()

    @field_validator("train")
    @classmethod
    def _names_files(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if not files:
            raise ValueError("names no file")
        return files

    @field_validator("template")
    @classmethod
    def _asks_and_answers(cls, template: str | None) -> str | None:
        if template is not None:
            try:
                names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
            except ValueError as error:
                raise ValueError(
                    f"{template!r} is no template ({error}); double the braces of the text"
                ) from None
            # Where the answer begins is found by its name: formats and doubled braces around it hide that.
            if names != [PROMPT, ANSWER] or template.count(f"{{{ANSWER}}}") != 1:
                others = set(names) - {PROMPT, ANSWER}
                way = "; double the braces of the text: {{ and }}" if others else ""
                raise ValueError(
                    f"{template!r} must name {{{PROMPT}}} once and after it {{{ANSWER}}} once{way}"
                )
        return template

    def anchored(self) -> "TextConfig":
        """The same with whole paths, so that a run can be resumed from any folder."""
        parts = {part: tuple(map(_whole, getattr(self, part))) for part in ("train", "validation")}
        return self.model_copy(update=parts)

    def without_files(self) -> dict[str, Any]:
        """Everything but the positions of the files, which are known by what they hold."""
        return self.model_dump(mode="json", exclude={"train", "validation"})

    @property
    def paths(self) -> list[str]:
        """Everything that training reads."""
        return [*self.train, *self.validation]

    @property
    def holds_out(self) -> bool:
        """Whether there will be text for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)

    @property
    def is_few_texts(self) -> bool:
        """Whether it is plain files, and so few that their length counts, not their number."""
        if self.template:
            return False
        found = [path for position in self.train for path in files(position)]
        return len(found) < FEW and all(
            ending(path) not in (".jsonl", ".ndjson", ".parquet") for path in found
        )


class LanguageTraining(TrainingConfig):
    """The defaults suit a small model on some megabytes of text."""

    steps: Annotated[int, Field(gt=0)] = 5000
    optimizer: OptimizerConfig = MuonConfig()
    schedule: ScheduleConfig = StableSchedule(learning_rate=3e-3, warmup=100, decay=0.4)
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    monitor: Literal["loss"] = "loss"  # pyright: ignore
    """Validation metric that selects the best weights."""


class LanguageRecipe(Settings):
    """Everything that decides what a run for a language model will give."""

    kind: Literal["language"] = "language"
    data: TextConfig
    tokenizer: TokenizerConfig = TokenizerConfig(kind="bytes")
    model: GPTConfig = GPTConfig()
    batches: TextBatchingConfig = TextBatchingConfig()
    training: LanguageTraining = LanguageTraining()

    @field_validator("tokenizer")
    @classmethod
    def _keeps_the_text(cls, tokenizer: TokenizerConfig) -> TokenizerConfig:
        if tokenizer.normalize or tokenizer.dropout:
            raise ValueError("normalize and dropout change what a language model reads; leave them out")
        return tokenizer.model_copy(update={"normalize": False})

    @model_validator(mode="after")
    def _agrees(self) -> "LanguageRecipe":
        # One that is taken over is as it is.
        if self.tokenizer.kind not in ("bytes", "character") and not self.training.init_from:
            kind = self.tokenizer.kind
            raise ValueError(
                f"tokenizer.kind {kind} does not keep blanks as they are; use bytes or character"
            )
        if self.batches.row_length and self.batches.row_length > self.model.max_length:
            raise ValueError(
                f"batches.row_length {self.batches.row_length} is more than model.max_length {self.model.max_length}"
            )
        if self.data.template and self.batches.kind == "crops":
            raise ValueError("batches.kind is 'crops', which would cut prompts from answers; use 'packed'")
        if self.training.average and self.training.average.of == "best" and not self.data.holds_out:
            raise ValueError("training.average.of is 'best', but no text is kept for validation")
        return self

    def settled(self, on_gpu: bool) -> "LanguageRecipe":
        """The same with nothing left to be chosen by the machine, so that a run goes on as it began."""
        batches = self.batches
        if batches.row_length is None:
            batches = batches.model_copy(update={"row_length": self.model.max_length})
        if batches.kind == "auto":
            kind = "crops" if self.data.is_few_texts else "packed"
            batches = batches.model_copy(update={"kind": kind})
        training = self.training.resolved(on_gpu, self.model.width)
        return self.model_copy(update={"batches": batches, "training": training})


def _whole(file: str) -> str:
    return file if file in SHIPPED_TEXTS and not Path(file).exists() else str(Path(file).absolute())

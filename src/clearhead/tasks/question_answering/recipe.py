"""Settings of a question-answering run."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from clearhead.config import Settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.models import EncoderConfig
from clearhead.models.heads import SpanConfig
from clearhead.tasks.init_from import with_init_from
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import Files, SplitFiles
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import AdamWConfig, OptimizerConfig
from clearhead.training.schedule import CosineSchedule, ScheduleConfig

HEADS = ("span", "classifier")


class QuestionHoldOut(Settings):
    """How many of the training questions to hold out if no validation files are given."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the articles or stories, with all their questions."""
    most: NonNegativeInt = 2000
    """Maximum number of questions."""


class QuestionsConfig(SplitFiles):
    """The questions and their texts."""

    train: Files
    """Files in SQuAD's format (.json), as JSON Lines or in bAbI's format, compressed or not."""
    hold_out: QuestionHoldOut = QuestionHoldOut()

    @property
    def holds_out(self) -> bool:
        """Whether there will be questions for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)


class AnswersConfig(Settings):
    """How answers are found in a text."""

    max_tokens: PositiveInt = 30
    """Maximum tokens of an answer."""
    stride: PositiveInt = 128
    """Tokens from one window of a long text to the next."""
    threshold: float | None = None
    """There is no answer if the score of "no answer" exceeds that of the best span by this. Default: there is
    always an answer."""


class QuestionAnsweringTraining(TrainingConfig):
    """Defaults for a small encoder on a few thousand questions."""

    steps: PositiveInt = 2000
    optimizer: OptimizerConfig = AdamWConfig(betas=(0.9, 0.98), weight_decay=0.01)
    schedule: ScheduleConfig = CosineSchedule(learning_rate=1e-3, warmup=200)
    validate_every: PositiveInt = 200
    save_every: PositiveInt = 200
    monitor: Literal["f1", "exact_match", "loss"] = "f1"  # pyright: ignore
    """Validation metric that selects the best weights."""


class QuestionAnsweringRecipe(Recipe):
    """A run that trains an encoder to answer questions about texts.

    With a head of kind "span", the answer is a part of the text; with one of kind "classifier", it is one of
    the answers seen in training.
    """

    kind: Literal["question_answering"] = "question_answering"
    data: QuestionsConfig
    model: EncoderConfig = EncoderConfig(head=SpanConfig(), token_types=3)
    tokenizer: TokenizerConfig = TokenizerConfig(vocabulary=8000, lowercase=True)
    batches: BatchingConfig = BatchingConfig(tokens=4096, row_length=128)
    answers: AnswersConfig = AnswersConfig()
    training: QuestionAnsweringTraining = QuestionAnsweringTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.model.head.kind not in HEADS:
            raise ValueError(
                f"model.head.kind is '{self.model.head.kind}'; answers need {' or '.join(HEADS)}"
            )
        if self.batches.kind == "packed":
            raise ValueError("batches.kind is 'packed', but every question needs a row")
        self.check_average(self.data.holds_out, "no questions are")
        return self

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def inherited(self) -> Self:
        return with_init_from(self)

    def resolved(self, on_gpu: bool) -> Self:
        batches = self.batches.model_copy(update={"kind": "padded"})
        return super().resolved(on_gpu).model_copy(update={"batches": batches})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"}, exclude_none=True)
        return {**groups, "data": self.data.without_files()}

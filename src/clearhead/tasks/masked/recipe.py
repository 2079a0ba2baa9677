"""Settings of a run that pre-trains an encoder on masked text."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from clearhead.data.batching.crops import TextBatchingConfig
from clearhead.data.batching.masking import MaskingConfig
from clearhead.data.datasets import SHIPPED, SHIPPED_TEXTS
from clearhead.models import EncoderConfig
from clearhead.models.heads import MaskedTokensConfig
from clearhead.tasks.init_from import INIT_FROM, tokenizer_of, with_init_from
from clearhead.tasks.language.recipe import PlainTextConfig
from clearhead.tasks.recipe import Recipe
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import MuonConfig, OptimizerConfig
from clearhead.training.schedule import ScheduleConfig, StableSchedule


class MaskedTextConfig(PlainTextConfig):
    """The training text: of shipped pairs, the first column."""

    SHIPPED: ClassVar = SHIPPED | SHIPPED_TEXTS

    field: int | str | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """Column of .tsv and .csv files, numbered from 0 or named, or field of records, that holds the text."""
    documents: Literal["file", "line"] = "file"
    """What a document is in a plain text file; tokens of different documents do not see each other."""


class MaskedTraining(TrainingConfig):
    """Defaults for a small encoder on a few megabytes of text."""

    steps: Annotated[int, Field(gt=0)] = 5000
    optimizer: OptimizerConfig = MuonConfig()
    schedule: ScheduleConfig = StableSchedule(learning_rate=3e-3, warmup=100, decay=0.6)
    monitor: Literal["loss", "accuracy"] = "loss"  # pyright: ignore
    """Validation metric that selects the best weights."""


class MaskedRecipe(Recipe):
    """A run that pre-trains an encoder: it learns to predict hidden tokens from both sides."""

    kind: Literal["masked"] = "masked"
    data: MaskedTextConfig
    tokenizer: TokenizerConfig = TokenizerConfig(lowercase=True)
    model: EncoderConfig = EncoderConfig(dropout=0.0, head=MaskedTokensConfig())
    masking: MaskingConfig = MaskingConfig()
    batches: TextBatchingConfig = TextBatchingConfig()
    training: MaskedTraining = MaskedTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="before")
    @classmethod
    def _choose_head(cls, values: Any) -> Any:
        """By default, the head is the one that the masking needs."""
        if not isinstance(values, dict) or not isinstance(values.get("model", {}), dict):
            return values
        model, masking = values.get("model", {}), values.get("masking")
        causal = isinstance(masking, dict) and masking.get("causal")
        head = {"kind": "masked_tokens", "predict_from": "previous" if causal else "mask"}
        return values | {"model": {"dropout": 0.0, "head": head} | model}

    @field_validator("tokenizer")
    @classmethod
    def _check_tokenizer(cls, tokenizer: TokenizerConfig) -> TokenizerConfig:
        if tokenizer.dropout:
            raise ValueError("dropout has no effect on masked text; leave it out")
        return tokenizer

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        head, batches = self.model.head, self.batches
        if not isinstance(head, MaskedTokensConfig):
            raise ValueError(f"model.head.kind is {head.kind!r}; masked text needs 'masked_tokens'")
        if self.masking.causal and head.predict_from != "previous":
            raise ValueError('masking.causal needs model.head.predict_from = "previous"')
        if not self.model.packs:
            raise ValueError("model.position 'fraction' and attention.score 'location' cannot be packed")
        if batches.kind == "crops":
            raise ValueError("batches.kind is 'crops'; masked text is always packed, leave it out")
        if batches.row_length and batches.row_length > self.model.max_length:
            raise ValueError(
                f"batches.row_length {batches.row_length} exceeds model.max_length {self.model.max_length}"
            )
        self.check_average(self.data.holds_out, "no text is")
        return self

    @property
    def has_test_data(self) -> bool:
        return self.data.holds_out and not self.data.validation

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resolved(self, on_gpu: bool) -> Self:
        row_length = self.batches.row_length or self.model.max_length
        batches = self.batches.model_copy(update={"kind": "packed", "row_length": row_length})
        return super().resolved(on_gpu).model_copy(update={"batches": batches})

    def inherited(self) -> Self:
        return with_init_from(self)

    def inherited_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the model that the run starts from."""
        return tokenizer_of({INIT_FROM: self.training.init_from})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"})
        return {**groups, "data": self.data.without_files()}

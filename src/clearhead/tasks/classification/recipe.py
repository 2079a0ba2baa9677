"""Settings of a classification run."""

import codecs
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, field_validator, model_validator

from clearhead.config import Settings
from clearhead.data.batching.buckets import BatchingConfig
from clearhead.models import BagConfig, BiLSTMConfig, EncoderConfig
from clearhead.tasks.init_from import INIT_FROM, tokenizer_of, with_init_from
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import Files, SplitFiles
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.criterion import RDropConfig
from clearhead.training.optimizer import AdamWConfig, OptimizerConfig
from clearhead.training.schedule import CosineSchedule, ScheduleConfig

Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]
# The file in a run's folder that holds its held-out texts.
VALIDATION = "validation.jsonl"
# The training settings of a bag: the seed, and what a run resolves for this machine.
USED_BY_BAGS = ("seed", "device", "precision", "compile")
ModelConfig = Annotated[BagConfig | BiLSTMConfig | EncoderConfig, Field(discriminator="kind")]


class LabelHoldOut(Settings):
    """How many of the training texts to hold out if no validation files are given."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the texts of each class."""
    most: NonNegativeInt = 2000
    """Maximum number of texts over all classes."""


class LabelledConfig(SplitFiles):
    """The labelled texts."""

    train: Files
    """Files with a label and a text in each line or record, compressed or not."""
    columns: Columns | None = None
    """Columns of label and text, numbered from 0 or named. Default: found by their usual names."""
    encoding: str = "utf-8"
    """Of files that are neither JSON nor Parquet."""
    label_separator: str | None = Field(default=None, min_length=1)
    """Divides the labels of a text that may have several, in files without lists."""
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = None
    """Weights of the texts of each label in the loss; balanced: the rarer a label, the higher."""
    hold_out: LabelHoldOut = LabelHoldOut()

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str) -> str:
        try:
            # Files are split into lines before they are decoded, which UTF-16 does not allow.
            if b"\n".decode(encoding) == "\n":
                return codecs.lookup(encoding).name
        except (LookupError, UnicodeError):
            pass
        raise ValueError(f"{encoding!r} is not an encoding that extends ASCII; try 'utf-8' or 'latin-1'")

    @property
    def holds_out(self) -> bool:
        """Whether there will be texts for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)


class AdversarialConfig(Settings):
    """Texts whose embeddings are moved to make their label less likely must keep it (Miyato et al. 2017).

    The loss is the mean over the texts as they are and the moved ones.
    """

    kind: Literal["adversarial"] = "adversarial"
    epsilon: PositiveFloat = 0.02
    """How far the embeddings of a text move, relative to their norm."""


ClassificationRegulariser = Annotated[RDropConfig | AdversarialConfig, Field(discriminator="kind")]


class ClassificationTraining(TrainingConfig):
    """Defaults for a small sequence model on a few thousand short texts; a bag uses only the seed."""

    steps: Annotated[int, Field(gt=0)] = 1000
    optimizer: OptimizerConfig = AdamWConfig(betas=(0.9, 0.99), weight_decay=0.01)
    schedule: ScheduleConfig = CosineSchedule(learning_rate=1e-3, warmup=100)
    validate_every: Annotated[int, Field(gt=0)] = 100
    save_every: Annotated[int, Field(gt=0)] = 100
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    regulariser: ClassificationRegulariser | None = None
    """What makes predictions smooth: R-Drop, or adversarial training of the embeddings."""
    monitor: Literal["accuracy", "macro_f1", "loss"] = "accuracy"  # pyright: ignore
    """Validation metric that selects the best weights."""


class ClassificationRecipe(Recipe):
    """A run that trains a classifier: a bag of words, a bidirectional LSTM or a Transformer encoder."""

    kind: Literal["classification"] = "classification"
    data: LabelledConfig
    model: ModelConfig = BagConfig()
    tokenizer: TokenizerConfig | None = None
    """Of a sequence model; default: words, lower-cased. A bag has its own words."""
    batches: BatchingConfig | None = None
    """Of a sequence model."""
    training: ClassificationTraining = ClassificationTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="before")
    @classmethod
    def _start_from_encoder(cls, values: Any) -> Any:
        """Without [model], a run that starts from a trained model trains an encoder."""
        training = values.get("training") if isinstance(values, dict) else None
        if isinstance(training, dict) and training.get("init_from"):
            return {"model": {"kind": "encoder"}} | values
        return values

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for name in ("tokenizer", "batches"):
            if self.is_bag and getattr(self, name) is not None:
                raise ValueError(f"model.kind 'bag' takes no [{name}]; leave it out")
        if self.is_bag and (ignored := self._ignored_by_bag()):
            raise ValueError(
                f"{', '.join(ignored)}: a bag is fitted at once and uses only the seed; leave out what it "
                "does not use, or set model.kind to 'encoder' or 'bilstm'"
            )
        if self.batches and self.batches.kind == "packed":
            raise ValueError("batches.kind is 'packed', but a classifier needs a row for each text")
        self.check_average(self.data.holds_out, "no texts are")
        return self

    def _ignored_by_bag(self) -> list[str]:
        """The training settings that a bag would ignore and that differ from their defaults."""
        training, defaults = self.training, type(self.training)()
        names = (name for name in type(training).model_fields if name not in USED_BY_BAGS)
        return [f"training.{name}" for name in names if getattr(training, name) != getattr(defaults, name)]

    @property
    def is_bag(self) -> bool:
        return isinstance(self.model, BagConfig)

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def inherited(self) -> Self:
        return with_init_from(self)

    def inherited_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the model that the run starts from."""
        return tokenizer_of({INIT_FROM: self.training.init_from})

    def resolved(self, on_gpu: bool) -> Self:
        recipe = super().resolved(on_gpu)
        if self.is_bag:
            return recipe
        tokenizer = self.tokenizer or TokenizerConfig(kind="word", vocabulary=20000, lowercase=True)
        batches = (self.batches or BatchingConfig(tokens=2048)).model_copy(update={"kind": "padded"})
        return recipe.model_copy(update={"tokenizer": tokenizer, "batches": batches})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"}, exclude_none=True)
        return {**groups, "data": self.data.without_files()}

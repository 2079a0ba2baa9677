"""Settings of a run that trains an image classifier."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from clearhead.config import Settings
from clearhead.data.augmentation import AugmentationConfig
from clearhead.data.images import Fit, Resample
from clearhead.models import ViTConfig
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import Files, SplitFiles
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import MuonConfig, OptimizerConfig
from clearhead.training.schedule import CosineSchedule, ScheduleConfig

# The file in a run's folder that holds its held-out images.
VALIDATION = "validation.npz"


class ImageHoldOut(Settings):
    """How many of the training images to hold out if no validation files are given."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the images of each class."""
    most: NonNegativeInt = 2000
    """Maximum number of images over all classes."""


class ImagesConfig(SplitFiles):
    """The labelled images."""

    SOURCE: ClassVar = "a folder or a file"

    train: Files
    """Folders with one folder per class, .npz or .parquet files."""
    labels: Files = ()
    """Names of labels that the files number from 0."""
    fit: Fit = "crop"
    """How an image becomes a square: its centre, or all of it squashed."""
    resample: Resample = "bicubic"
    hold_out: ImageHoldOut = ImageHoldOut()

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len({*labels}) < len(labels):
            raise ValueError("has a name twice; labels must differ")
        return labels

    @property
    def holds_out(self) -> bool:
        """Whether there will be images for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)


class ImageBatchingConfig(Settings):
    """The images of a batch; an epoch ends with its last full batch."""

    images: PositiveInt = 128


class ImageTraining(TrainingConfig):
    """Defaults for a small vision Transformer on some ten thousand images."""

    steps: Annotated[int, Field(gt=0)] = 5000
    optimizer: OptimizerConfig = MuonConfig(weight_decay=0.05)
    schedule: ScheduleConfig = CosineSchedule(learning_rate=1e-3, warmup=200)
    validate_every: Annotated[int, Field(gt=0)] = 500
    save_every: Annotated[int, Field(gt=0)] = 500
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    monitor: Literal["accuracy", "macro_f1", "loss"] = "accuracy"  # pyright: ignore
    """Validation metric that selects the best weights."""


class ImageClassificationRecipe(Recipe):
    """A run that trains a vision Transformer to classify images."""

    kind: Literal["image_classification"] = "image_classification"
    data: ImagesConfig
    model: ViTConfig = ViTConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    batches: ImageBatchingConfig = ImageBatchingConfig()
    training: ImageTraining = ImageTraining()  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.model.head.kind != "classifier":
            raise ValueError(f"model.head.kind is '{self.model.head.kind}'; a classifier needs 'classifier'")
        if self.augmentation.crop >= self.model.image_size:
            raise ValueError(
                f"augmentation.crop {self.augmentation.crop} is not below {self.model.image_size}, "
                "the height of an image"
            )
        self.check_average(self.data.holds_out, "no images are")
        return self

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data"}, exclude_none=True)
        return {**groups, "data": self.data.without_files()}

"""Settings of a captioning run."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from clearhead.config import Settings
from clearhead.data.augmentation import AugmentationConfig
from clearhead.data.images import Fit
from clearhead.models import CaptionerConfig
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.split_files import PARTS, RequiredFiles
from clearhead.tasks.translation.options import SearchConfig
from clearhead.text.tokenizer import TokenizerConfig
from clearhead.training import TrainingConfig
from clearhead.training.optimizer import AdamWConfig, OptimizerConfig
from clearhead.training.schedule import CosineSchedule, ScheduleConfig

Share = Annotated[float, Field(ge=0, lt=1)]


class ImageHoldOut(Settings):
    """How many of the training images to hold out if no list names those of validation."""

    share: Share = 0.1
    most: NonNegativeInt = 1000


class CaptionsConfig(Settings):
    """The images and their captions."""

    captions: RequiredFiles
    """Files with the file name of an image and a caption in each line (.tsv, .csv, Flickr8k's .token.txt),
    or JSON Lines with 'image' and 'caption' or 'captions'."""
    images: str | None = None
    """Folder of the images, or an .npz archive with their names. Default: the folder of the captions."""
    train: str | None = None
    """File with the names of the images to train on, one per line. Default: all that are in no other part."""
    validation: str | None = None
    """The same for validation. Default: a part of the training images (see hold_out)."""
    test: str | None = None
    """The same for `clearhead evaluate`. Default: the validation images."""
    hold_out: ImageHoldOut = ImageHoldOut()
    fit: Fit = "crop"
    """How an image becomes a square: its centre, or all of it squashed."""

    def absolute(self) -> "CaptionsConfig":
        """The same data with absolute paths."""
        named = {name: getattr(self, name) for name in ("images", *PARTS)}
        paths = {name: str(Path(path).absolute()) for name, path in named.items() if path}
        captions = tuple(str(Path(file).absolute()) for file in self.captions)
        return self.model_copy(update={**paths, "captions": captions})

    def without_files(self) -> dict[str, Any]:
        """All settings but the paths: files are recognised by their content."""
        return self.model_dump(mode="json", exclude={"captions", "images", *PARTS})

    @property
    def location(self) -> str:
        """Where the images are."""
        return self.images or str(Path(self.captions[0]).parent)

    @property
    def lists(self) -> dict[str, str]:
        """The files that list the images of a part."""
        return {part: path for part in PARTS if (path := getattr(self, part))}

    @property
    def holds_out(self) -> bool:
        """Whether there will be images for validation."""
        return bool(self.validation) or bool(self.hold_out.share and self.hold_out.most)


class CaptionBatching(Settings):
    """How images and captions form batches. Each image is encoded once for all captions in its row."""

    images: PositiveInt = 128
    """Images in a batch; the last ones of an epoch that do not fill one are left out."""
    row_length: PositiveInt = 96
    """Tokens of captions in a row; an image whose captions need more comes several times."""


class CaptionValidation(Settings):
    """What validation measures besides the loss."""

    images: NonNegativeInt = 500
    """Images whose captions BLEU-4 is measured on; 0 leaves it out."""
    beam: PositiveInt = 1


class CaptionTraining(TrainingConfig):
    """Defaults for some thousand images with five captions each."""

    steps: Annotated[int, Field(gt=0)] = 4000
    optimizer: OptimizerConfig = AdamWConfig(betas=(0.9, 0.99), weight_decay=0.05)
    schedule: ScheduleConfig = CosineSchedule(learning_rate=1e-3, warmup=200)
    validate_every: Annotated[int, Field(gt=0)] = 200
    save_every: Annotated[int, Field(gt=0)] = 200
    label_smoothing: Share = 0.1
    words_weight: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the loss for predicting the words of the captions from the image alone (Joulin et al. 2016),
    relative to the captions' own; 0 leaves it out."""
    word_dropout: Share = 0.0
    """Share of the words that the decoder reads as <unk>, so that it has to look (Bowman et al. 2016)."""
    monitor: Literal["bleu", "loss"] = "bleu"  # pyright: ignore
    """Validation metric that selects the best weights."""


class CaptioningRecipe(Recipe):
    """A run that trains a captioner."""

    kind: Literal["captioning"] = "captioning"
    data: CaptionsConfig
    tokenizer: TokenizerConfig = TokenizerConfig(kind="word", vocabulary=4000, lowercase=True)
    model: CaptionerConfig = CaptionerConfig()
    batches: CaptionBatching = CaptionBatching()
    augmentation: AugmentationConfig = AugmentationConfig(zoom=0.5)
    training: CaptionTraining = CaptionTraining()  # pyright: ignore[reportIncompatibleVariableOverride]
    validation: CaptionValidation = CaptionValidation()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.batches.row_length < self.model.max_length:
            raise ValueError(
                f"batches.row_length {self.batches.row_length} is below model.max_length "
                f"{self.model.max_length}, so that a caption may not fit into a row; raise it"
            )
        if self.training.monitor == "bleu" and not self.validation.images:
            raise ValueError("training.monitor is 'bleu', but validation.images is 0; set it to 'loss'")
        if self.augmentation.mixup or self.augmentation.cutmix:
            raise ValueError("augmentation: a caption describes one image; leave out mixup and cutmix")
        self.check_average(self.data.holds_out, "no images are")
        return self

    def absolute(self) -> Self:
        return self.model_copy(update={"data": self.data.absolute()})

    def resume_settings(self) -> dict[str, Any]:
        groups = self.model_dump(mode="json", exclude={"kind", "data", "search"}, exclude_none=True)
        return {**groups, "data": self.data.without_files()}

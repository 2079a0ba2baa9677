"""A recipe sized to labelled images: their size, the model, and the length of the run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.images import decode
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.images import LabelledImage
from clearhead.errors import DataError
from clearhead.layers.attention import AttentionConfig
from clearhead.layers.patches import ConvStemConfig
from clearhead.models import ViT, ViTConfig
from clearhead.models.heads import ClassifierConfig
from clearhead.tasks.image_classification.data import labels_of, listed
from clearhead.tasks.image_classification.recipe import (
    ImageBatchingConfig,
    ImageClassificationRecipe,
    ImagesConfig,
    ImageTraining,
)
from clearhead.tasks.sizing import FittedRecipe, steps_of, with_changes
from clearhead.training.optimizer import MuonConfig
from clearhead.training.schedule import CosineSchedule
from clearhead.wording import counted

# Images whose sizes stand for those of all.
SAMPLE = 100
# Below this many pixels in the shorter side of the median image, 32 are enough.
SMALL = 48
# The patches of a stem are a grid of so many rows and columns.
SIDE = 8
# (images, width, layers, epochs): up to that many images.
SIZES = ((2_000, 96, 3, 100), (20_000, 128, 4, 60), (float("inf"), 192, 6, 40))
TIMED = 16
"""Images in the batch whose time is measured."""


@dataclass(frozen=True)
class FittedImages(FittedRecipe):
    """A recipe and the images that it is sized to."""

    recipe: ImageClassificationRecipe
    images: int
    labels: int
    median: int
    """The shorter side of the median image, in pixels."""

    def choices(self) -> list[str]:
        """The choices, one per line."""
        model, run, batch = self.recipe.model, self.recipe.training, self.recipe.batches.images
        return [
            f"images: {self.images:,}, the shorter side of the median one {self.median} pixels; "
            f"{self.labels} labels",
            f"model: images of {model.image_size} pixels, {model.side} x {model.side} patches, width "
            f"{model.width}, {counted(model.layers, 'layer')}",
            f"run: {counted(run.steps, 'step')} of {batch} images, validated every "
            f"{run.validate_every:,}; the best model is kept",
        ]

    def seconds(self, device: torch.device) -> float:
        """The estimated time of the run, from that of a small batch."""
        model, size = ViT(self.recipe.model).to(device), self.recipe.model.image_size
        images = torch.zeros(TIMED, 3, size, size, device=device)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            model(images).sum().backward()
            model.get_parameter("encoder.norm.weight").detach().sum().item()  # waits for the device
            taken.append(time.perf_counter() - start)
        return min(taken) / TIMED * self.recipe.batches.images * self.recipe.training.steps


def fit_images(
    paths: Sequence[str], changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> FittedImages:
    """Lists the images and sizes a recipe to them; changes such as 'model.layers=2' come first."""
    requested = apply_overrides({"data": {"train": list(paths)}}, changes)
    data = parse_settings(ImagesConfig, requested["data"], group="data")
    examples = listed(data.train, data.labels)
    labels = labels_of(examples, " and ".join(data.train))
    median = _median_side(examples)
    image_size = 32 if median < SMALL else 64
    width, layers, epochs = next(rest for most, *rest in SIZES if len(examples) <= most)
    batch = min(128, max(16, len(examples) // 10))
    steps = steps_of(requested, max(200, int(epochs) * len(examples) // batch))
    every = max(20, steps // 20)
    recipe = ImageClassificationRecipe(
        data=data,
        model=ViTConfig(
            image_size=image_size,
            patches=ConvStemConfig(channels=(32, 64) if image_size == SIDE * 4 else (32, 64, 64)),
            layers=layers,
            width=width,
            ffn_width=2 * width,
            attention=AttentionConfig(heads=width // 32),
            head=ClassifierConfig(pooling="sequence", dropout=0.0),
        ),
        batches=ImageBatchingConfig(images=batch),
        training=ImageTraining(
            steps=steps,
            optimizer=MuonConfig(weight_decay=0.05),
            schedule=CosineSchedule(learning_rate=1e-3, warmup=max(1, steps // 20)),
            validate_every=every,
            save_every=every,
        ),
    )
    return FittedImages(with_changes(recipe, requested, changes), len(examples), len(labels), median)


def _median_side(examples: Sequence[LabelledImage]) -> int:
    """The shorter side of the median image, from some spread evenly over all."""
    sides, problems = [], []
    for example in examples[:: max(1, len(examples) // SAMPLE)]:
        try:
            sides.append(min(decode(example.source, example.location).size))
        except DataError as error:
            problems.append(str(error))
    if not sides:
        raise DataError(
            f"{counted(len(problems), 'image')} looked at, and none can be read; the first: {problems[0]}"
        )
    return int(np.median(sides))

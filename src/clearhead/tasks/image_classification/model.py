"""A trained image classifier in use: images in, labels and probabilities out."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, overload

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.checkpoint import Checkpoint
from clearhead.data.image_processor import ImageProcessor
from clearhead.data.images import ImageSource
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import ModelError, TextError
from clearhead.inspection.explanation import Explanation, explain_pass
from clearhead.inspection.image import patch_image
from clearhead.inspection.relevance import Relevance
from clearhead.models import ViT
from clearhead.tasks.classification.model import Classification
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.image_classification.evaluate import evaluate
from clearhead.tasks.image_classification.relevance import image_relevance
from clearhead.tasks.model import TaskModel, listed
from clearhead.tasks.samples import sample_images

# Images that are classified at once.
BATCH = 500
Pixels = UInt8[Tensor, "images 3 size size"]
Logits = Float[Tensor, "images classes"]


class ImageClassificationModel(TaskModel):
    """A vision Transformer with its labels."""

    task: ClassVar[str] = "image_classification"
    multi_label: ClassVar[bool] = False
    evaluate_unit: ClassVar[str] = "image"

    def __init__(self, model: ViT, processor: ImageProcessor):
        self.model, self.processor = model.eval(), processor
        self.labels = processor.labels

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "ImageClassificationModel":
        assert isinstance(checkpoint.model, ViT)
        if len(checkpoint.processor.labels) < 2:
            raise ModelError(f"{checkpoint.processor.FILE}: has no labels; this model classifies nothing")
        return cls(checkpoint.model, checkpoint.processor)

    def facts(self) -> list[str]:
        return [listed(self.labels)]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def classify(self, images: ImageSource) -> Classification: ...
    @overload
    def classify(self, images: list) -> list[Classification]: ...
    def classify(self, images: ImageSource | list) -> Classification | list[Classification]:
        """The class of an image, or of each of several: files, their bytes, Pillow images or arrays."""
        several = images if isinstance(images, list) else [images]
        if not several:
            return []
        found = []
        rows = self.pixel_logits(self.processor.pixels(several)).softmax(-1).tolist()
        for image, row in zip(several, rows, strict=True):
            probabilities = dict(zip(self.labels, row, strict=True))
            label = max(probabilities, key=lambda label: probabilities[label])
            name = str(image) if isinstance(image, str | Path) else "image"
            found.append(Classification(name, label, probabilities))
        return found if isinstance(images, list) else found[0]

    @torch.no_grad()
    def pixel_logits(self, pixels: Pixels) -> Logits:
        """The logits of the classes of images in the model's size."""
        return torch.cat(
            [
                self.model(self.processor.normalize(part.to(self.device))).float()
                for part in pixels.split(BATCH)
            ]
        )

    @property
    def samples(self) -> dict[str, Path]:
        """Sample images in the model's folder, for the explorer."""
        return sample_images(self.name)

    def explain(self, image: ImageSource, *, names: Sequence[str] = ("*",)) -> Explanation:
        """One captured pass over an image; keeps only tensors whose names match."""
        [pixels], found = self.processor.pixels([image]), self.classify(image)
        given = self.processor.normalize(pixels[None].to(self.device))
        explanation = explain_pass(
            self.model,
            lambda: self.model(given),
            {},
            names,
            self.processor,
            found.text,
            found.label,
            found,
            {"image": patch_image(pixels, self.model.config)},
        )
        relevance = partial(image_relevance, self, pixels, found.label)
        return replace(explanation, name=self.name, relevance=relevance)

    def relevance(self, image: ImageSource, label: str | None = None) -> Relevance:
        """How much each patch supports a label, by default the most likely one, and a test of that."""
        return image_relevance(self, self.processor.pixels([image])[0], self._label(image, label))

    def evidence(self, image: ImageSource, label: str | None = None) -> dict[str, float]:
        """How much the log-probability of a label falls when each patch is grey, the most first.

        Patches are named by row and column, from 0; the label is the image's own by default.
        """
        label = self._label(image, label)
        side, size = self.model.config.side, self.model.config.patches.reduction
        hidden = self.processor.pixels([image]).repeat(side * side + 1, 1, 1, 1)
        grey = (torch.tensor(self.processor.mean) * 255).round().to(torch.uint8)[:, None, None]
        names = [(row, column) for row in range(side) for column in range(side)]
        for one, (row, column) in zip(hidden[1:], names, strict=True):
            one[:, row * size : (row + 1) * size, column * size : (column + 1) * size] = grey
        whole, *others = self.pixel_logits(hidden).log_softmax(-1)[:, self.labels.index(label)].tolist()
        found = {f"{row},{column}": whole - other for (row, column), other in zip(names, others, strict=True)}
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def _label(self, image: ImageSource, label: str | None) -> str:
        label = self.classify(image).label if label is None else label
        if label not in self.labels:
            raise TextError(f"label: {label!r} is not one of {', '.join(self.labels)}")
        return label

    def evaluate(
        self,
        folder: Path | str | None = None,
        *,
        data: str | None = None,
        progress: ProgressCallback = ignore_progress,
        reading: ProgressCallback = ignore_progress,
    ) -> Evaluation:
        """Accuracy, F1, calibration and confusion matrix on labelled images, or on those of the recipe."""
        return evaluate(self.pixel_logits, self.processor, self._held_out(folder), data, progress, reading)

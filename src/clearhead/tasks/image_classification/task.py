"""The image classification task: its loss, data, validation and model card."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.augmentation import augment
from clearhead.data.batching.plan import Share
from clearhead.data.image_processor import ImageProcessor
from clearhead.data.sources.images import check_images, images_hash
from clearhead.evaluation.classification import Confusion
from clearhead.evaluation.metric import ACCURACY, LOSS, MACRO_F1
from clearhead.models import ViT
from clearhead.tasks.card import card, data_line, parameter_count
from clearhead.tasks.events import Note
from clearhead.tasks.image_classification.data import ImageBatch, ImageBatches, ImageData
from clearhead.tasks.image_classification.model import BATCH, ImageClassificationModel
from clearhead.tasks.image_classification.recipe import VALIDATION, ImageClassificationRecipe
from clearhead.tasks.records import naming
from clearhead.tasks.samples import COUNT, write_samples
from clearhead.tasks.task import RunContext, Task
from clearhead.wording import counted, label_list

SHOWN_PROBLEMS = 3


class ImageClassificationTask(Task):
    """Trains a vision Transformer to classify images."""

    Recipe = ImageClassificationRecipe
    metrics = (LOSS, MACRO_F1, ACCURACY)
    unit = "image"
    does = "classifies images"
    command = "clearhead classify"
    argument = "IMAGE"
    recipe: ImageClassificationRecipe
    processor: ImageProcessor

    def prepare(self, context: RunContext) -> Iterator[Note]:
        data = self.recipe.data
        check_images(data.paths)
        yield Note("reading the images …")
        size, seed = self.recipe.model.image_size, self.recipe.training.seed
        self.images = images = ImageData.read(data, size, seed, context.progress)
        self.data_fingerprint = [images_hash(path) for path in [*data.train, *data.validation]]
        yield Note(self._about())
        yield from (Note(f"left out: {problem}") for problem in images.problems[:SHOWN_PROBLEMS])
        if len(images.problems) > SHOWN_PROBLEMS:
            yield Note(f"left out: {len(images.problems) - SHOWN_PROBLEMS:,} more")
        if len(images.validation) and not data.validation:
            context.ranks.first(lambda: self._write_held_out(context))
        self.processor = context.processor(ImageProcessor, lambda: images.processor(data))
        context.ranks.first(lambda: self._write_samples(context))

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> ImageBatches:
        share = Share(rank, ranks, batches_per_step)
        return ImageBatches(self.images.train, self.recipe.batches.images, self.recipe.training.seed, share)

    def loss(self, model: ViT, batch: ImageBatch) -> Tensor:
        classes, smoothing = len(self.processor.labels), self.recipe.training.label_smoothing
        images, targets = augment(batch.pixels, batch.classes, classes, self.recipe.augmentation)
        logits = model(self.processor.normalize(images))
        return F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)

    @torch.no_grad()
    def validate(self, model: ViT, autocast: AbstractContextManager) -> dict[str, float]:
        held_out = self.images.validation
        if not len(held_out):
            return {}
        model.eval()
        device, found = next(model.parameters()).device, []
        for part in held_out.pixels.split(BATCH):
            with autocast:
                found.append(model(self.processor.normalize(part.to(device))).float().cpu())
        logits = torch.cat(found)
        predicted = logits.argmax(-1).tolist()
        confusion = Confusion.of(held_out.classes.tolist(), predicted, len(self.images.labels))
        loss = float(F.cross_entropy(logits, held_out.classes))
        return {"loss": loss, "macro_f1": confusion.macro_f1, "accuracy": confusion.accuracy}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        data, labels, size = self.recipe.data, self.images.labels, self.recipe.model.image_size
        parameters = parameter_count(model)
        held_out = (
            f"`{VALIDATION}` was held out." if len(self.images.validation) and not data.validation else ""
        )
        return card(
            title=f"A classifier of images with {counted(len(labels), 'label')}",
            about=f"Trained with clearhead: a vision Transformer with {parameters:,} parameters on "
            f"{counted(len(self.images.train), 'image')} of {size} x {size} pixels; "
            f"{counted(step, 'training step')}. "
            f"Labels: {label_list(labels)}.",
            use=["clearhead classify image.jpg --model THIS-FOLDER", "clearhead evaluate THIS-FOLDER"],
            data=[data_line(file) for file in data.train],
            held_out=held_out,
            scores=scores,
            metrics=self.metrics,
        )

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> ImageClassificationModel:
        return ImageClassificationModel.from_checkpoint(checkpoint)

    def _write_held_out(self, context: RunContext) -> None:
        path = context.out / VALIDATION
        if not path.exists():
            with naming(path):
                self.images.validation.save(path, self.images.labels)

    def _write_samples(self, context: RunContext) -> None:
        """Writes a held-out image of each of the first classes."""
        classes = self.images.validation.classes.tolist()
        rows = [classes.index(number) for number in sorted({*classes})[:COUNT]]
        labels = [self.images.labels[classes[row]] for row in rows]
        with naming(context.out):
            write_samples(context.out, self.images.validation.select(rows).pixels, labels)

    def _about(self) -> str:
        images = self.images
        left_out = f"; {counted(len(images.problems), 'image')} left out" if images.problems else ""
        return (
            f"images to train on: {len(images.train):,}, {len(images.validation):,} for validation; "
            f"{counted(len(images.labels), 'label')}: {label_list(images.labels)}{left_out}"
        )

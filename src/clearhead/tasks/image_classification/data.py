"""Labelled images: reading, checking, splitting, and batches of them."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.image_processor import Channels, ImageProcessor
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.images import LabelledImage, read_images
from clearhead.errors import DataError
from clearhead.files import atomic_path
from clearhead.tasks.image_classification.recipe import ImagesConfig
from clearhead.tasks.images import FullBatches, Pixels, Rows, decode_all
from clearhead.wording import counted, quoted

LEVELS = 256


@dataclass(frozen=True)
class DecodedImages:
    """Images of one size in memory, and their class numbers."""

    pixels: Pixels
    classes: Int[Tensor, " images"]

    def __len__(self) -> int:
        return len(self.classes)

    def select(self, rows: Sequence[int]) -> "DecodedImages":
        index = torch.tensor(rows, dtype=torch.int64)
        return DecodedImages(self.pixels[index], self.classes[index])

    def save(self, path: Path, labels: Sequence[str]) -> None:
        """Writes an .npz file that `read_images` reads."""
        images = self.pixels.permute(0, 2, 3, 1).contiguous().numpy()
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file, images=images, labels=self.classes.numpy(), label_names=np.array(labels)
            )


@dataclass(frozen=True)
class ImageData:
    """The images of a recipe in two parts, and all labels in order."""

    labels: tuple[str, ...]
    train: DecodedImages
    validation: DecodedImages
    problems: tuple[str, ...]
    """What is wrong with each image that was left out."""

    @classmethod
    def read(
        cls, config: ImagesConfig, size: int, seed: int, progress: ProgressCallback = ignore_progress
    ) -> "ImageData":
        """Reads, decodes and splits the files; raises DataError where they cannot be classified."""
        where = " and ".join(config.train)
        examples = listed(config.train, config.labels)
        labels = labels_of(examples, where)
        processor = ImageProcessor(size, labels=labels, fit=config.fit, resample=config.resample)
        images, problems = decode_images(examples, processor, where, progress)
        if config.validation:
            named = " and ".join(config.validation)
            others = listed(config.validation, config.labels)
            check_known(others, labels, named)
            validation, more = decode_images(others, processor, named)
            return cls(labels, images, validation, (*problems, *more))
        held = held_out(images, labels, config, seed)
        train = [row for row in range(len(images)) if row not in held]
        parts = (images.select(train), images.select(sorted(held))) if held else (images, images.select([]))
        return cls(labels, *parts, problems)

    def processor(self, config: ImagesConfig) -> ImageProcessor:
        """The processor with the mean and standard deviation of the training images."""
        mean, std = channel_statistics(self.train.pixels)
        size = self.train.pixels.shape[-1]
        return ImageProcessor(size, mean, std, self.labels, config.fit, config.resample)


def listed(files: Iterable[str], names: Sequence[str] = ()) -> list[LabelledImage]:
    """The images of files, not decoded yet; those without a label are left out."""
    return [image for file in files for image in read_images(file, names) if image.label]


def decode_images(
    examples: Sequence[LabelledImage],
    processor: ImageProcessor,
    where: str,
    progress: ProgressCallback = ignore_progress,
) -> tuple[DecodedImages, tuple[str, ...]]:
    """All images that can be decoded, with their classes, and what is wrong with the others."""
    numbers = {label: number for number, label in enumerate(processor.labels)}
    found = decode_all([(example.location, example.source) for example in examples], processor, progress)
    if not found.kept:
        first = f"; the first problem: {found.problems[0]}" if found.problems else ""
        raise DataError(f"{where}: no image that can be read and has a label{first}")
    classes = torch.tensor([numbers[examples[number].label] for number in found.kept])
    return DecodedImages(found.pixels, classes), tuple(map(str, found.problems))


def check_known(examples: Sequence[LabelledImage], labels: Sequence[str], files: str) -> None:
    """Raises DataError for a label that training does not have."""
    unknown = [label for label in Counter(example.label for example in examples) if label not in {*labels}]
    if unknown:
        raise DataError(
            f"{files}: label {quoted(unknown)} is not in the training data, which has {quoted(labels)}; "
            "rename it, or train with these labels"
        )


def held_out(images: DecodedImages, labels: Sequence[str], config: ImagesConfig, seed: int) -> set[int]:
    """The rows of a share of each class; equal images are in the same part."""
    if not config.holds_out:
        return set()
    share = min(config.hold_out.share, config.hold_out.most / len(images))
    keys = [_hash(one, seed) for one in images.pixels.numpy()]
    held: set[bytes] = set()
    for number, label in enumerate(labels):
        own = {key for key, one in zip(keys, images.classes.tolist(), strict=True) if one == number}
        if len(own) < 2:
            raise DataError(
                f"label '{label[:40]}' has {counted(len(own), 'image')} only, so none is left to train on "
                "after validation; add more, remove it, or set data.hold_out.share to 0"
            )
        held.update(sorted(own)[: max(1, int(share * len(own)))])
    rows = {row for row, key in enumerate(keys) if key in held}
    left = {one for row, one in enumerate(images.classes.tolist()) if row not in rows}
    if missing := [label for number, label in enumerate(labels) if number not in left]:
        raise DataError(
            f"label '{missing[0][:40]}' has no image left to train on after validation, because other labels "
            "have the same images; remove copies, or set data.hold_out.share to 0"
        )
    return rows


def channel_statistics(pixels: Pixels) -> tuple[Channels, Channels]:
    """Mean and standard deviation of each channel, of values from 0 to 1; at least a level of deviation."""
    levels = torch.arange(LEVELS, dtype=torch.float64) / (LEVELS - 1)
    means, deviations = [], []
    for channel in pixels.unbind(1):
        share = channel.flatten().bincount(minlength=LEVELS) / channel.numel()
        mean = float((share * levels).sum())
        means.append(round(mean, 6))
        spread = float((share * (levels - mean).square()).sum().sqrt())
        deviations.append(round(max(spread, 1 / LEVELS), 6))
    return tuple(means), tuple(deviations)


@dataclass(frozen=True)
class ImageBatch(TensorBatch):
    """Images and their classes; all batches of a run have one shape."""

    static_shape = True
    pixels: UInt8[Tensor, "batch 3 size size"]
    classes: Int[Tensor, " batch"]


class ImageBatches(FullBatches[ImageBatch]):
    """Full batches of images in random order; what is left at the end of an epoch is dropped."""

    def __init__(self, images: DecodedImages, size: int, seed: int = 0, share: Share = SINGLE):
        super().__init__(len(images), size, seed, share)
        self.images = images

    def build(self, epoch: int, plan: Rows) -> ImageBatch:
        rows = torch.from_numpy(plan)
        # Copies whole images, unlike indexing by a tensor.
        return ImageBatch(*(one.index_select(0, rows) for one in (self.images.pixels, self.images.classes)))


def labels_of(examples: Sequence[LabelledImage], where: str) -> tuple[str, ...]:
    """All labels, in order; raises DataError if there is only one."""
    counts = Counter(example.label for example in examples)
    if not counts:
        raise DataError(f"{where}: no image with a label; put the images into one folder per class")
    if len(counts) == 1:
        raise DataError(
            f"{where}: {counted(len(examples), 'image')} with the label {quoted(counts)} alone; a classifier "
            "needs two or more labels"
        )
    return tuple(sorted(counts, key=lambda label: (int(label) if label.isdigit() else -1, label)))


def _hash(pixels: NDArray[np.uint8], seed: int) -> bytes:
    salt = seed.to_bytes(8, "little")
    return hashlib.blake2b(pixels.tobytes(), digest_size=16, salt=salt).digest()

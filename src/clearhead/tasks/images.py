"""Images in memory: decoding those of a run, and batches of one size."""

import os
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.batch import TensorBatch
from clearhead.data.batching.plan import SINGLE, PlannedBatches, Share
from clearhead.data.image_processor import ImageProcessor
from clearhead.data.images import ImageSource
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import DataError
from clearhead.wording import counted

# Decoded images may fill this share of the memory.
MEMORY_SHARE = 0.7
Pixels = UInt8[Tensor, "images 3 size size"]
Rows = NDArray[np.int64]
Batch = TypeVar("Batch", bound=TensorBatch, covariant=True)


class Decoded(NamedTuple):
    """The images that can be decoded, in one tensor."""

    pixels: Pixels
    kept: list[int]
    """Their numbers among all images."""
    problems: list[DataError]
    """What is wrong with each of the others."""


def decode_all(
    images: Sequence[tuple[str, ImageSource]],
    processor: ImageProcessor,
    progress: ProgressCallback = ignore_progress,
) -> Decoded:
    """The pixels of images, each named for its error; raises DataError if memory cannot hold them."""
    _check_memory(len(images), processor.size)
    pixels = np.empty((len(images), processor.size, processor.size, 3), dtype=np.uint8)
    kept, problems = [], []
    for number, (name, source) in enumerate(images):
        try:
            pixels[len(kept)] = processor.square(source, name)
            kept.append(number)
        except DataError as error:
            problems.append(error)
        progress((number + 1) * pixels[0].nbytes, pixels.nbytes)
    return Decoded(torch.from_numpy(pixels[: len(kept)]).permute(0, 3, 1, 2).contiguous(), kept, problems)


class FullBatches(PlannedBatches[Rows, Batch]):
    """Full batches of rows in random order; what is left at the end of an epoch is dropped."""

    def __init__(self, total: int, size: int, seed: int = 0, share: Share = SINGLE):
        super().__init__(seed, share)
        per_step = self.share.batches_per_step
        if total < per_step:
            raise DataError(
                f"{counted(total, 'image')} cannot fill the {counted(per_step, 'batch')} of a step; use "
                "fewer ranks, a lower training.accumulate or more images"
            )
        self.total, self.size = total, min(size, total // per_step)

    def plan(self, epoch: int) -> list[Rows]:
        order = self.random(epoch).permutation(self.total)
        batches = len(order) // self.size // self.share.batches_per_step * self.share.batches_per_step
        return np.split(order[: batches * self.size], batches)


def _check_memory(images: int, size: int) -> None:
    needed = images * 3 * size * size
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > MEMORY_SHARE * available:
        raise DataError(
            f"{counted(images, 'image')} of {size} x {size} pixels take {needed / 1e9:.0f} GB, but this "
            f"machine has {available / 1e9:.0f}; lower the model's image_size, or use fewer images"
        )

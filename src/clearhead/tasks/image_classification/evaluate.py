"""Evaluation of image classifiers on labelled images."""

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.data.image_processor import ImageProcessor
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.images import check_images
from clearhead.errors import DataError
from clearhead.evaluation.classification import Calibration, Confusion
from clearhead.inspection.explanation import finite
from clearhead.tasks.classification.evaluate import absent_labels, confusion_table
from clearhead.tasks.evaluation import Evaluation
from clearhead.tasks.image_classification.data import DecodedImages, check_known, decode_images, listed
from clearhead.tasks.image_classification.recipe import VALIDATION, ImagesConfig
from clearhead.wording import counted

PixelLogits = Callable[[UInt8[Tensor, "images 3 size size"]], Float[Tensor, "images classes"]]
# Images that are classified at once.
CHUNK = 1000


def evaluation_images(
    named: str | None, folder: Path, processor: ImageProcessor, reading: ProgressCallback = ignore_progress
) -> tuple[DecodedImages, tuple[str, ...], str]:
    """The images of a file or folder, else of the recipe's test files, else those held out.

    Also what is wrong with those that were left out, and where they are from.
    """
    config = ImagesConfig.of_run(folder)
    held_out, names = folder / VALIDATION, config.labels
    files = [named] if named else list(config.test or config.validation)
    if not files and held_out.exists():
        files, names = [str(held_out)], ()
    if not files:
        raise DataError(f"{folder}: this folder has no held-out images; name a folder or file with --data")
    check_images(files)
    where = " and ".join(files)
    examples = listed(files, names)
    check_known(examples, processor.labels, where)
    return *decode_images(examples, processor, where, reading), where


def evaluate(
    logits: PixelLogits,
    processor: ImageProcessor,
    folder: Path,
    named: str | None = None,
    progress: ProgressCallback = ignore_progress,
    reading: ProgressCallback = ignore_progress,
) -> Evaluation:
    """Accuracy, macro-F1, calibration, the confusion matrix, and the accuracy averaged over flips."""
    images, problems, where = evaluation_images(named, folder, processor, reading)
    labels, correct = processor.labels, images.classes
    plain, flipped = all_logits(logits, images.pixels, progress)
    probabilities = plain.softmax(-1)
    predicted = probabilities.argmax(-1)
    confusion = Confusion.of(correct.tolist(), predicted.tolist(), len(labels))
    calibration = Calibration.of(probabilities.amax(-1).double().numpy(), (predicted == correct).numpy())
    both = (probabilities + flipped.softmax(-1)).argmax(-1)
    with_flips = float((both == correct).double().mean())
    notes = [f"left out {counted(len(problems), 'image')}; the first: {problems[0]}"] if problems else []
    notes += absent_labels(confusion.by_class, labels, f"has no image in {where}")
    lines = (
        f"{where}: {counted(len(images), 'image')}",
        f"accuracy {confusion.accuracy:.2%} ({with_flips:.2%} averaged over each image and its mirror image)",
        f"macro-F1 {confusion.macro_f1:.2%}",
        f"expected calibration error {calibration.error:.2%}",
        *confusion_table(confusion, labels),
    )
    record = {
        "images": len(images),
        "accuracy": confusion.accuracy,
        "accuracy_with_flips": with_flips,
        "macro_f1": confusion.macro_f1,
        "f1": {label: finite(one) for label, one in zip(labels, confusion.f1.tolist(), strict=True)},
        "calibration_error": calibration.error,
        "labels": list(labels),
        "confusion": confusion.counts.tolist(),
        "left_out": len(problems),
    }
    return Evaluation(lines, record, tuple(notes))


def all_logits(
    logits: PixelLogits,
    pixels: UInt8[Tensor, "images 3 size size"],
    progress: ProgressCallback = ignore_progress,
) -> tuple[Float[Tensor, "images classes"], Float[Tensor, "images classes"]]:
    """The logits of images, and of their mirror images."""
    found: list[list[Tensor]] = []
    progress(0, len(pixels))
    for start in range(0, len(pixels), CHUNK):
        part = pixels[start : start + CHUNK]
        found.append([logits(part).cpu(), logits(part.flip(-1)).cpu()])
        progress(start + len(part), len(pixels))
    plain, flipped = (torch.cat(parts) for parts in zip(*found, strict=True))
    return plain, flipped

"""The processor of image models: size, normalisation, and the labels that an image may have."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from clearhead.data.images import Fit, ImageSource, Resample, decode, resize, source_name
from clearhead.errors import DataError, ModelError
from clearhead.files import write_text
from clearhead.text.processor import distinct_texts, read_json

Channels = tuple[float, float, float]
ImageBatch = Float[Tensor, "batch 3 size size"]
PixelBatch = UInt8[Tensor, "batch 3 size size"]
MEMBERS = {"size": int, "mean": list, "std": list, "labels": list, "fit": str, "resample": str}
"""The types of its members in JSON."""


@dataclass(frozen=True)
class ImageProcessor:
    """Images to normalised pixels, and labels to class numbers; only classifiers have labels."""

    FILE: ClassVar[str] = "processor.json"
    reads: ClassVar[str] = "image"

    size: int
    """Height and width in pixels."""
    mean: Channels = (0.5, 0.5, 0.5)
    std: Channels = (0.5, 0.5, 0.5)
    labels: tuple[str, ...] = ()
    fit: Fit = "crop"
    """How an image becomes a square: its centre, or all of it squashed."""
    resample: Resample = "bicubic"

    def pixels(self, images: Sequence[ImageSource]) -> PixelBatch:
        """The pixels of images of any size and kind."""
        rows = np.empty((len(images), self.size, self.size, 3), dtype=np.uint8)
        for row, image in zip(rows, images, strict=True):
            row[:] = self.square(image)
        return torch.from_numpy(rows).permute(0, 3, 1, 2).contiguous()

    def square(self, image: ImageSource, location: str = "") -> UInt8[np.ndarray, "size size 3"]:
        """The pixels of one image; raises DataError with its location if it is none."""
        # Twice the size is enough for the filter that resizes it.
        decoded = decode(image, location, at_least=2 * self.size)
        try:
            return resize(decoded, self.size, self.fit, self.resample)
        except DataError as error:
            raise DataError(f"{location or source_name(image)}: {error}") from None

    def normalize(self, pixels: PixelBatch | ImageBatch) -> ImageBatch:
        """Pixels from 0 to 255 as the model's input, on their own device."""
        # By numbers, not by tensors: a CUDA graph cannot copy these to the device.
        channels = zip(pixels.float().unbind(1), self.mean, self.std, strict=True)
        return torch.stack([(channel / 255 - mean) / std for channel, mean, std in channels], 1)

    def __call__(self, images: Sequence[ImageSource]) -> ImageBatch:
        """The model's input for images of any size and kind."""
        return self.normalize(self.pixels(images))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()

    def save(self, path: Path) -> None:
        write_text(path, json.dumps({"kind": "image", **asdict(self)}, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.from_json(read_json(path, MEMBERS), path)

    @classmethod
    def from_json(cls, content: Mapping[str, Any], path: Path) -> Self:
        """The processor that `asdict` was called on; error messages name `path`."""
        for name in ("mean", "std"):
            values: list[Any] = content[name]
            valid = len(values) == 3 and all(isinstance(value, int | float) for value in values)
            if not valid or (name == "std" and min(values) <= 0):
                raise ModelError(f"{path}: has no valid '{name}'; copy the file again")
        if content["size"] < 1:
            raise ModelError(f"{path}: has no valid 'size'; copy the file again")
        for name, choices in (("fit", Fit), ("resample", Resample)):
            if content[name] not in get_args(choices):
                known = ", ".join(get_args(choices))
                raise ModelError(f"{path}: '{name}' is not one of {known}; copy the file again")
        same: dict[str, Any] = {name: content[name] for name in ("size", "fit", "resample")}
        mean, std = (cast(Channels, tuple(map(float, content[name]))) for name in ("mean", "std"))
        return cls(mean=mean, std=std, labels=distinct_texts(content, "labels", path), **same)

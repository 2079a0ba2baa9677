"""Images with captions: reading, checking, splitting, and batches of them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.data.batch import IGNORE_INDEX, TextBatch
from clearhead.data.batching.plan import SINGLE, Share
from clearhead.data.image_processor import ImageProcessor
from clearhead.data.images import ImageSource
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.data.sources.captions import read_captions, read_names
from clearhead.data.sources.images import check_images, named_images
from clearhead.data.sources.streams import content_hash
from clearhead.errors import DataError
from clearhead.evaluation.captions import caption_words
from clearhead.tasks.captioning.recipe import CaptionBatching, CaptionsConfig
from clearhead.tasks.images import FullBatches, Pixels, Rows, decode_all
from clearhead.text.tokenizer import BOS, EOS, PAD, Tokenizer

SHOWN = 3


@dataclass(frozen=True)
class LeftOut:
    """What cannot be trained on or measured, by reason."""

    without_image: tuple[str, ...] = ()
    """Names of images that captions name but that are not there."""
    without_caption: int = 0
    """Images without a caption."""
    damaged: tuple[str, ...] = ()
    """Images that cannot be decoded."""
    blank: int = 0
    """Captions without words."""
    too_long: int = 0
    """Captions with more tokens than the model takes."""

    def __str__(self) -> str:
        """The reasons with their numbers and some names; empty if nothing is left out."""
        reasons = {
            "captioned images that are not there": (len(self.without_image), self.without_image),
            "images without a caption": (self.without_caption, ()),
            "damaged images": (len(self.damaged), self.damaged),
            "captions without words": (self.blank, ()),
            "captions with too many tokens": (self.too_long, ()),
        }
        return ", ".join(
            f"{reason}: {count:,}" + (f" ({_some(names)})" if names else "")
            for reason, (count, names) in reasons.items()
            if count
        )


@dataclass(frozen=True)
class CaptionedImages:
    """Images that are not decoded yet, by name, and the captions of each."""

    sources: Mapping[str, ImageSource]
    captions: Mapping[str, list[str]]

    def __len__(self) -> int:
        return len(self.captions)

    def part(self, names: Sequence[str]) -> "CaptionedImages":
        """Some of the images."""
        return CaptionedImages(self.sources, {name: self.captions[name] for name in names})

    @property
    def texts(self) -> list[str]:
        """All captions."""
        return [text for several in self.captions.values() for text in several]


@dataclass(frozen=True)
class Corpus:
    """The images of a recipe in three parts."""

    train: CaptionedImages
    validation: CaptionedImages
    test: CaptionedImages
    left_out: LeftOut = field(default_factory=LeftOut)

    @classmethod
    def read(cls, config: CaptionsConfig, seed: int) -> "Corpus":
        """Reads the captions and the names of the images, and splits them; images are decoded later."""
        everything, left_out = captioned_images(config.captions, config.images)
        listed = {part: _listed(path, everything) for part, path in config.lists.items()}
        others = {name for part in ("validation", "test") for name in listed.get(part, [])}
        train = listed.get("train", [name for name in everything.captions if name not in others])
        if both := others.intersection(train):
            raise DataError(
                f"{config.train}: {min(both)} is also an image of another part; remove it from one"
            )
        if "validation" not in listed and config.holds_out:
            train, listed["validation"] = _hold_out(train, config, seed)
        if not train:
            raise DataError("no image is left to train on; name other images, or lower data.hold_out")
        validation = everything.part(listed.get("validation", []))
        test = everything.part(listed["test"]) if "test" in listed else validation
        return cls(everything.part(train), validation, test, left_out)


def captioned_images(
    files: Sequence[str], images: str | None, elsewhere: str | None = None
) -> tuple[CaptionedImages, LeftOut]:
    """The images that have captions and the captions that have images, and what is left out.

    Images are in a folder or an archive, by default in the folder of the captions; those that are not there
    may be `elsewhere`.
    """
    location = Path(images) if images else Path(files[0]).parent
    check_images([*files, location])
    captions: dict[str, list[str]] = {}
    blank = 0
    for file in files:
        for caption in read_captions(Path(file)):
            if caption_words(caption.text):
                captions.setdefault(caption.image, []).append(caption.text)
            else:
                blank += 1
    sources = named_images(location)
    if elsewhere and Path(elsewhere).exists() and not captions.keys() & sources.keys():
        location, sources = Path(elsewhere), named_images(Path(elsewhere))
    kept = {name: several for name, several in captions.items() if name in sources}
    if not kept:
        raise DataError(
            f"{' and '.join(files)}: none of its {len(captions):,} images, such as {_some(list(captions))}, "
            f"is in {location}; name their folder or archive: --set data.images=FOLDER"
        )
    missing = tuple(name for name in captions if name not in sources)
    without = len(sources.keys() - captions.keys())
    return CaptionedImages(sources, kept), LeftOut(missing, without, blank=blank)


def data_hash(config: CaptionsConfig, corpus: Corpus) -> list[str]:
    """Changes with the content of the files; of a folder of images, with the sizes of those with captions."""
    files = [*config.captions, *config.lists.values()]
    if not Path(config.location).is_dir():
        return [content_hash(Path(path)) for path in [*files, config.location]]
    parts = (corpus.train, corpus.validation, corpus.test)
    used = {name: part.sources[name] for part in parts for name in part.captions}
    sizes = [f"{name} {path.stat().st_size}" for name, path in sorted(used.items()) if isinstance(path, Path)]
    return [*(content_hash(Path(path)) for path in files), "\n".join(sizes)]


@dataclass(frozen=True)
class DecodedImages:
    """Images as pixels, and the captions of each."""

    pixels: Pixels
    captions: list[list[str]]
    names: list[str]

    def __len__(self) -> int:
        return len(self.captions)

    def first(self, count: int) -> "DecodedImages":
        return DecodedImages(self.pixels[:count], self.captions[:count], self.names[:count])


def decode_images(
    images: CaptionedImages, processor: ImageProcessor, progress: ProgressCallback = ignore_progress
) -> tuple[DecodedImages, list[str]]:
    """The pixels of images that can be decoded, and the names of the others."""
    every = list(images.captions)
    found = decode_all([(name, images.sources[name]) for name in every], processor, progress)
    if found.problems and not found.kept:
        raise found.problems[0]
    names, kept = [every[number] for number in found.kept], {*found.kept}
    damaged = [name for number, name in enumerate(every) if number not in kept]
    return DecodedImages(found.pixels, [images.captions[name] for name in names], names), damaged


@dataclass(frozen=True)
class CaptionBatch(TextBatch):
    """An image per row, and captions of it, one after the other: each is a document of the row."""

    images: Pixels = field(kw_only=True)


class CaptionRows:
    """Captions in rows of one length, each with the number of its image."""

    def __init__(self, captions: Sequence[Sequence[Sequence[int]]], max_tokens: int, row_length: int):
        rows: list[tuple[int, list[Sequence[int]]]] = []
        self.too_long = 0
        for image, several in enumerate(captions):
            free = 0
            for ids in several:
                if not 0 < len(ids) <= min(max_tokens, row_length - 1):
                    self.too_long += 1
                    continue
                if len(ids) + 1 > free:
                    rows.append((image, []))
                    free = row_length
                rows[-1][1].append(ids)
                free -= len(ids) + 1
        self.images = np.array([image for image, _ in rows], dtype=np.int64)
        self.cells = np.zeros((4, len(rows), row_length), dtype=np.int32)
        self.cells[0], self.cells[1] = PAD, IGNORE_INDEX
        for row, (_, several) in enumerate(rows):
            start = 0
            for number, ids in enumerate(several, start=1):
                end = start + len(ids) + 1
                self.cells[:, row, start:end] = (
                    [BOS, *ids],
                    [*ids, EOS],
                    [number] * (len(ids) + 1),
                    range(len(ids) + 1),
                )
                start = end

    def __len__(self) -> int:
        return len(self.images)


class CaptionBatches(FullBatches[CaptionBatch]):
    """Rows of captions with their images."""

    def __init__(
        self, rows: CaptionRows, pixels: Pixels, config: CaptionBatching, seed: int = 0, share: Share = SINGLE
    ):
        super().__init__(len(rows), config.images, seed, share)
        self.rows, self.pixels = rows, pixels

    def build(self, epoch: int, plan: Rows) -> CaptionBatch:
        cells = torch.from_numpy(self.rows.cells[:, plan])
        return CaptionBatch(cells, images=self.pixels[torch.from_numpy(self.rows.images[plan])])

    def sequential(self) -> list[Rows]:
        """All rows once, in order."""
        return np.split(np.arange(len(self.rows)), range(self.size, len(self.rows), self.size))


def word_weights(rows: CaptionRows, tokenizer: Tokenizer) -> Float[Tensor, " vocabulary"]:
    """How much each token says about an image: its inverse document frequency, special tokens excepted.

    Over all tokens of the captions, the mean is 1.
    """
    labels = rows.cells[1].astype(np.int64)
    row, column = np.nonzero(labels >= len(tokenizer.special_tokens))
    tokens, size = labels[row, column], tokenizer.size
    counts = np.bincount(tokens, minlength=size)
    rows_with = np.bincount(np.unique(row * size + tokens) % size, minlength=size)
    weights = np.log(len(rows) / rows_with.clip(min=1)) * (rows_with > 0)
    scale = counts.sum() / max(1.0, float((counts * weights).sum()))
    return torch.from_numpy(weights * scale).float()


def _hold_out(names: Sequence[str], config: CaptionsConfig, seed: int) -> tuple[list[str], list[str]]:
    """The names to train on and those held out, chosen by a hash so that more images change few of them."""
    count = min(config.hold_out.most, max(1, int(config.hold_out.share * len(names))))
    salt = seed.to_bytes(8, "little")
    ranked = sorted(names, key=lambda name: hashlib.blake2b(name.encode(), salt=salt, digest_size=8).digest())
    held = {*ranked[:count]}
    return [name for name in names if name not in held], [name for name in names if name in held]


def _listed(path: str, images: CaptionedImages) -> list[str]:
    """The captioned images that a file lists; at least one."""
    names = list(dict.fromkeys(read_names(Path(path))))
    found = [name for name in names if name in images.captions]
    if not found:
        raise DataError(
            f"{path}: none of its {len(names):,} names, such as {_some(names)}, is an image with a caption"
        )
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")

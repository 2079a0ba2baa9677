"""Labelled images: a folder per class, Parquet files, and .npz archives."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clearhead.data.images import ImageSource
from clearhead.data.progress import count_share
from clearhead.data.sources.columns import listed, usual_name
from clearhead.data.sources.streams import check_rereadable, content_hash, open_file, suffix
from clearhead.errors import DataError
from clearhead.wording import counted

# The usual names of columns and of folders.
IMAGES, LABELS = ("image", "img", "images"), ("label", "labels", "class", "category", "fine_label")
PARTS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing"}
# What images in a folder of other files are recognised by.
SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"}
BATCH = 256


class LabelledImage(NamedTuple):
    """An image that is not decoded yet."""

    location: str
    """Its file, or the file that holds it and its number there."""
    label: str
    """Empty if the file has none."""
    source: ImageSource


def read_images(path: str | Path, names: Sequence[str] = ()) -> Iterator[LabelledImage]:
    """The images of a file, or of a folder with a folder per class; `names` are those of numbered labels."""
    path = Path(path)
    check_images([path])
    read = folder_images if path.is_dir() else READERS.get(suffix(path))
    if read is None:
        raise DataError(
            f"{path}: images are in a folder with one folder per class, or in {', '.join(READERS)}"
        )
    return (one._replace(label=_named(one, names)) for one in read(path))


def check_images(paths: Sequence[str | Path]) -> None:
    """Raises DataError for missing and unusable files, before any long work."""
    for path in map(Path, paths):
        check_rereadable(path)
        if not path.exists():
            raise DataError(
                f"{path}: no such file or folder; 'clearhead data get' downloads public data sets"
            )


def images_hash(path: str | Path) -> str:
    """Changes with the content of a file; of a folder, with the names and sizes of its files."""
    path = Path(path)
    if not path.is_dir():
        return content_hash(path)
    found = [[str(file.relative_to(path)), file.stat().st_size] for file in _files(path)]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def folder_images(path: Path) -> Iterator[LabelledImage]:
    """The files of each folder inside; its name is their label."""
    classes = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    if not classes:
        raise DataError(
            f"{path}: has no folders; put the images into one per class, for example {path / 'cat' / '1.jpg'}"
        )
    if {one.name.lower() for one in classes} <= PARTS:
        raise DataError(f"{path}: its folders are parts, not classes; name one of them: {classes[0]}")
    for folder in classes:
        for file in _files(folder):
            yield LabelledImage(str(file), folder.name, file)


def npz_images(path: Path) -> Iterator[LabelledImage]:
    """Arrays `images` and `labels`, or `jpeg` (files one after the other), `offsets` and `labels`.

    `label_names`, if there, are the names of numbered labels.
    """
    arrays = _npz_arrays(path)
    images = _npz_sources(path, arrays)
    labels = arrays.get("labels", np.full(len(images), ""))
    if len(labels) != len(images) or labels.ndim != 1:
        number = counted(len(images), "image")
        raise DataError(f"{path}: has {number}, but labels of shape {list(labels.shape)}")
    names = [_text(name) for name in arrays.get("label_names", [])]
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        text = _text(label)
        known = names and text.isdecimal() and int(text) < len(names)
        yield LabelledImage(f"{path}, image {number}", names[int(text)] if known else text, image)


def parquet_images(path: Path) -> Iterator[LabelledImage]:
    """A column of image files, as bytes or Hugging Face's struct with `bytes`, and one of labels."""
    import pyarrow
    from pyarrow import parquet

    with open_file(path):
        pass  # raises a DataError if the file cannot be opened
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            image, label = usual_name(schema.names, IMAGES), usual_name(schema.names, LABELS)
            if image is None:
                raise DataError(f"{path}: no column 'image'; it has {listed(schema.names)}")
            names, number = _class_names(schema.metadata or {}, label), 0
            for batch in file.iter_batches(BATCH, columns=[image, *([label] if label else [])]):
                labels = batch.column(label).to_pylist() if label else [""] * batch.num_rows
                for content, one in zip(batch.column(image).to_pylist(), labels, strict=True):
                    data = content.get("bytes") if isinstance(content, dict) else content
                    known = isinstance(one, int) and 0 <= one < len(names)
                    text = names[one] if known else "" if one is None else str(one)
                    source = data if isinstance(data, bytes) else b""
                    yield LabelledImage(f"{path}, image {number}", text, source)
                    number += 1
                count_share(path, batch.num_rows, file.metadata.num_rows)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: cut short or not a Parquet file ({reason})") from None


def named_images(path: Path) -> dict[str, ImageSource]:
    """The images of a folder by their paths in it, or those of an .npz archive by its `names`."""
    if path.is_dir():
        files = (file for file in _files(path) if file.suffix.lower() in SUFFIXES)
        return {file.relative_to(path).as_posix(): file for file in files}
    if suffix(path) != ".npz":
        raise DataError(f"{path}: images are in a folder, or in an .npz archive with their names")
    arrays = _npz_arrays(path)
    images, names = _npz_sources(path, arrays), [_text(name) for name in arrays.get("names", [])]
    if len(names) != len(images):
        raise DataError(f"{path}: has {counted(len(images), 'image')}, but {len(names):,} 'names'")
    return dict(zip(names, images, strict=True))


READERS: dict[str, Callable[[Path], Iterator[LabelledImage]]] = {
    ".npz": npz_images,
    ".parquet": parquet_images,
}
"""What reads the images of each file type."""


def _files(folder: Path) -> list[Path]:
    """All files in a folder and below it that are not hidden, in order."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return [file for file in found if not any(p.startswith(".") for p in file.relative_to(folder).parts)]


def _npz_arrays(path: Path) -> dict[str, Any]:
    with open_file(path) as stream:
        content = io.BytesIO(stream.read())
    try:
        with np.load(content, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: cut short or not an .npz file of plain arrays ({reason})") from None


def _npz_sources(path: Path, arrays: dict[str, Any]) -> Sequence[ImageSource]:
    if "images" in arrays:
        images = arrays["images"]
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise DataError(
                f"{path}: 'images' are {images.dtype} of shape {list(images.shape)}; "
                "they must be uint8 of (images, height, width, 3)"
            )
        # Channels first, as torch keeps them.
        return (
            images.transpose(0, 2, 3, 1)
            if images.ndim == 4 and images.shape[1] == 3 != images.shape[3]
            else images
        )
    if "jpeg" not in arrays or "offsets" not in arrays:
        raise DataError(
            f"{path}: has neither 'images' nor 'jpeg' and 'offsets'; it has {listed(list(arrays))}"
        )
    content, offsets = arrays["jpeg"], arrays["offsets"].astype(np.int64).ravel()
    if (
        content.dtype != np.uint8
        or np.any(np.diff(offsets) < 0)
        or len(offsets) < 1
        or offsets[-1] > content.size
    ):
        raise DataError(f"{path}: 'offsets' do not fit 'jpeg'; copy the file again")
    return [content[start:end].tobytes() for start, end in pairwise(offsets)]


def _named(image: LabelledImage, names: Sequence[str]) -> str:
    if not names:
        return image.label
    if not image.label.isdecimal() or int(image.label) >= len(names):
        raise DataError(
            f"{image.location}: label '{image.label}' is not a number below {len(names)}, the number of "
            "data.labels; leave that setting out, or name all labels"
        )
    return names[int(image.label)]


def _class_names(metadata: dict[bytes, bytes], label: str | None) -> list[str]:
    """The names of numbered labels that Hugging Face's datasets keep in a file."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[label]["names"]]
    except (KeyError, TypeError, ValueError):
        return []


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

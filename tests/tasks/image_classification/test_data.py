"""Images are split by content, batched in full, and refused with one clear line."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.data.batching.plan import Share
from clearhead.data.sources.images import LabelledImage
from clearhead.errors import DataError
from clearhead.tasks.image_classification.data import (
    DecodedImages,
    ImageBatches,
    ImageData,
    channel_statistics,
    decode_images,
)
from clearhead.tasks.image_classification.recipe import ImageClassificationRecipe, ImagesConfig

from .conftest import LABELS, SIZE, shapes, write_folder


def read(folder: Path, **settings) -> ImageData:
    return ImageData.read(ImagesConfig.model_validate({"train": [str(folder)], **settings}), SIZE, seed=1)


def decoded(count: int) -> DecodedImages:
    pixels = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 3, 2, 2)
    return DecodedImages(pixels, torch.arange(count) % 3)


def test_a_share_of_each_class_is_held_out(tmp_path: Path):
    data = read(write_folder(tmp_path / "a", 60))
    assert data.labels == LABELS
    assert (len(data.train), len(data.validation)) == (54, 6)
    assert data.validation.classes.bincount().tolist() == [2, 2, 2]
    assert len(read(tmp_path / "a", hold_out={"share": 0}).validation) == 0


def test_equal_images_are_in_the_same_part(tmp_path: Path):
    images, labels = shapes(30)
    np.savez(tmp_path / "a.npz", images=np.concatenate([images, images]), labels=np.array(labels * 2))
    data = read(tmp_path / "a.npz", hold_out={"share": 0.3})
    train, validation = (
        {one.numpy().tobytes() for one in part.pixels} for part in (data.train, data.validation)
    )
    assert not train & validation
    assert (len(data.train), len(data.validation)) == (2 * len(train), 2 * len(validation))


def test_the_held_out_images_are_saved_and_read_again(tmp_path: Path):
    data = read(write_folder(tmp_path / "a", 60))
    data.validation.save(tmp_path / "validation.npz", data.labels)
    again = read(tmp_path / "validation.npz", hold_out={"share": 0})
    assert torch.equal(again.train.pixels, data.validation.pixels)
    assert torch.equal(again.train.classes, data.validation.classes)


def test_validation_images_may_have_files_of_their_own(tmp_path: Path):
    write_folder(tmp_path / "a", 12)
    write_folder(tmp_path / "b", 6, seed=1)
    data = read(tmp_path / "a", validation=[str(tmp_path / "b")])
    assert (len(data.train), len(data.validation)) == (12, 6)
    (tmp_path / "b" / "hexagon").mkdir()
    (next((tmp_path / "b" / "circle").iterdir())).rename(tmp_path / "b" / "hexagon" / "1.png")
    with pytest.raises(DataError, match="label 'hexagon' is not in the training data"):
        read(tmp_path / "a", validation=[str(tmp_path / "b")])


def test_labels_that_are_numbers_keep_their_order(tmp_path: Path):
    images, _ = shapes(24)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(24) % 12)
    assert read(tmp_path / "a.npz", hold_out={"share": 0}).labels == tuple(map(str, range(12)))


def one_image(path: Path) -> Path:
    return write_folder(path, 1)


def one_class(path: Path) -> Path:
    write_folder(path, 9)
    for label in ("square", "stripes"):
        for file in (path / label).iterdir():
            file.unlink()
        (path / label).rmdir()
    return path


def one_image_of_a_class(path: Path) -> Path:
    write_folder(path, 9)
    for file in sorted((path / "square").iterdir())[1:]:
        file.unlink()
    return path


def texts_only(path: Path) -> Path:
    for label in LABELS:
        (path / label).mkdir(parents=True)
        (path / label / "a.jpg").write_text("a text")
    return path


def no_labels(path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), images=shapes(6)[0])
    return path.with_suffix(".npz")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (one_image, "1 image with the label 'circle' alone; a classifier needs two or more labels"),
        (one_class, "3 images with the label 'circle' alone"),
        (one_image_of_a_class, "label 'square' has 1 image only, so none is left to train on"),
        (texts_only, "no image that can be read and has a label; the first problem:"),
        (no_labels, "no image with a label"),
    ],
)
def test_images_that_cannot_be_classified_are_one_clear_line(make, message: str, tmp_path: Path):
    with pytest.raises(DataError) as error:
        read(make(tmp_path / "a"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_images_that_fill_the_memory_are_refused_before_they_are_decoded():
    from clearhead.data.image_processor import ImageProcessor

    with pytest.raises(
        DataError, match=r"1 image of 3000000 x 3000000 pixels take \d+ GB.*lower the model's image_size"
    ):
        decode_images([LabelledImage("a/cat/1.png", "cat", b"")], ImageProcessor(3_000_000), "a")


def test_mean_and_deviation_are_those_of_the_pixels():
    pixels = torch.randint(
        0, 256, (5, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    pixels[:, 2] = 100
    mean, std = channel_statistics(pixels)
    values = pixels.double() / 255
    assert mean == pytest.approx(values.mean((0, 2, 3)).tolist(), abs=1e-5)
    assert std[:2] == pytest.approx(
        values.transpose(0, 1).flatten(1).std(1, correction=0)[:2].tolist(), abs=1e-5
    )
    assert std[2] == pytest.approx(1 / 256, abs=1e-5)


def test_an_epoch_has_full_batches_and_no_image_twice():
    batches = ImageBatches(decoded(100), 16, seed=3)
    first, second = (list(batches.epoch(number)) for number in (0, 1))
    assert [len(batch) for batch in first] == [16] * 6
    seen = torch.cat([batch.pixels[:, 0, 0, 0] for batch in first]).tolist()
    assert len({*seen}) == 96
    assert not torch.equal(first[0].pixels, second[0].pixels)
    assert torch.equal(next(batches.epoch(0, skip=2)).pixels, first[2].pixels)
    assert torch.equal(first[0].classes, first[0].pixels[:, 0, 0, 0].long() % 3)


def test_ranks_share_the_batches_of_an_epoch():
    whole = [batch.pixels for batch in ImageBatches(decoded(100), 16, 3, Share(0, 1, 2)).epoch(0)]
    parts = [
        [batch.pixels for batch in ImageBatches(decoded(100), 16, 3, Share(rank, 2, 2)).epoch(0)]
        for rank in (0, 1)
    ]
    joined = [batch for pair in zip(*parts, strict=True) for batch in pair]
    assert len(whole) == len(joined) == 6
    assert all(torch.equal(one, other) for one, other in zip(whole, joined, strict=True))


def test_few_images_are_one_batch():
    assert [len(batch) for batch in ImageBatches(decoded(5), 16).epoch(0)] == [5]
    with pytest.raises(DataError, match="1 image cannot fill the 2 batches"):
        ImageBatches(decoded(1), 16, 0, Share(0, 1, 2))


def test_impossible_recipes_are_explained():
    from pydantic import ValidationError

    wrong = {
        "augmentation.crop 32 is not below 32": {"augmentation": {"crop": 32}},
        "is empty; name a folder": {"data": {"train": []}},
        "has a name twice": {"data": {"train": ["a"], "labels": ["x", "x"]}},
        "no images are held out": {
            "data": {"train": ["a"], "hold_out": {"share": 0}},
            "training": {"average": {"of": "best"}},
        },
    }
    for message, settings in wrong.items():
        with pytest.raises(ValidationError, match=message):
            ImageClassificationRecipe.model_validate({"data": {"train": ["a"]}, **settings})

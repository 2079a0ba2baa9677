"""Folders, Parquet files and .npz archives give the same labelled images."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from clearhead.data.images import decode
from clearhead.data.sources.images import images_hash, read_images
from clearhead.errors import DataError

LABELS = ["cat", "dog", "cat", "dog", "cat"]


def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (5, 6, 6, 3), dtype=np.uint8)


def png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def folder(path: Path) -> Path:
    for number, (image, label) in enumerate(zip(pixels(), LABELS, strict=True)):
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{number}.png").write_bytes(png(image))
    (path / "cat" / ".DS_Store").write_bytes(b"x")
    return path


def packed(path: Path) -> Path:
    files = [png(image) for image in pixels()]
    offsets = np.cumsum([0, *map(len, files)])
    numbers = np.array([["cat", "dog"].index(label) for label in LABELS], dtype=np.uint8)
    np.savez(path, jpeg=np.frombuffer(b"".join(files), np.uint8), offsets=offsets, labels=numbers)
    return path


def arrays(path: Path) -> Path:
    np.savez(path, images=pixels(), labels=np.array([0, 1, 0, 1, 0]), label_names=np.array(["cat", "dog"]))
    return path


def channels_first(path: Path) -> Path:
    np.savez(path, images=pixels().transpose(0, 3, 1, 2), labels=np.array(LABELS))
    return path


def plain_parquet(path: Path) -> Path:
    parquet.write_table(pa.table({"image": [png(image) for image in pixels()], "label": LABELS}), path)
    return path


def huggingface_parquet(path: Path) -> Path:
    table = pa.table(
        {
            "img": [{"bytes": png(image), "path": None} for image in pixels()],
            "label": [["cat", "dog"].index(label) for label in LABELS],
        }
    )
    features = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), path)
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (folder, "animals"),
        (packed, "a.npz"),
        (arrays, "a.npz"),
        (channels_first, "a.npz"),
        (plain_parquet, "a.parquet"),
        (huggingface_parquet, "a.parquet"),
    ],
)
def test_every_source_gives_the_same_images(write, name: str, tmp_path: Path):
    path = write(tmp_path / name)
    names = ["cat", "dog"] if write is packed else []
    found = list(read_images(path, names))
    order = [0, 2, 4, 1, 3] if path.is_dir() else range(5)
    assert [one.label for one in found] == [LABELS[number] for number in order]
    for one, number in zip(found, order, strict=True):
        assert one.location.startswith(str(path))
        assert (np.asarray(decode(one.source)) == pixels()[number]).all()


def test_a_compressed_archive_is_read_too(tmp_path: Path):
    import lzma

    path = tmp_path / "a.npz.xz"
    path.write_bytes(lzma.compress(arrays(tmp_path / "a.npz").read_bytes()))
    assert [one.label for one in read_images(path)] == LABELS


def test_the_hash_of_a_folder_changes_with_its_files(tmp_path: Path):
    path = folder(tmp_path / "animals")
    before = images_hash(path)
    assert images_hash(path) == before
    (path / "dog" / "new.png").write_bytes(png(pixels()[0]))
    assert images_hash(path) != before


def bad(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "1.png").write_bytes(png(pixels()[0]))
    (tmp_path / "split" / "train").mkdir(parents=True)
    (tmp_path / "split" / "test").mkdir()
    (tmp_path / "text.npz").write_text("not an archive")
    (tmp_path / "text.parquet").write_text("not an archive")
    (tmp_path / "images.zip").write_text("")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    np.savez(tmp_path / "floats.npz", images=np.zeros((2, 4, 4, 3)), labels=np.zeros(2))
    np.savez(tmp_path / "labels.npz", images=pixels(), labels=np.zeros(2))
    np.savez(tmp_path / "offsets.npz", jpeg=np.zeros(4, np.uint8), offsets=np.array([0, 9]))
    np.savez(tmp_path / "objects.npz", images=np.array([{}, []], dtype=object))
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "text_only.parquet")
    return {
        "flat": (tmp_path / "flat", "has no folders; put the images into one per class"),
        "split": (tmp_path / "split", "its folders are parts, not classes; name one of them"),
        "text.npz": (tmp_path / "text.npz", "cut short or not an .npz file"),
        "objects": (tmp_path / "objects.npz", "not an .npz file of plain arrays"),
        "text.parquet": (tmp_path / "text.parquet", "cut short or not a Parquet file"),
        "text_only": (tmp_path / "text_only.parquet", "no column 'image'; it has"),
        "zip": (tmp_path / "images.zip", "in a folder with one folder per class, or in .npz, .parquet"),
        "other": (tmp_path / "other.npz", "has neither 'images' nor 'jpeg' and 'offsets'; it has"),
        "floats": (tmp_path / "floats.npz", "'images' are float64 of shape [2, 4, 4, 3]"),
        "labels": (tmp_path / "labels.npz", "has 5 images, but labels of shape [2]"),
        "offsets": (tmp_path / "offsets.npz", "'offsets' do not fit 'jpeg'"),
        "missing": (tmp_path / "none", "no such file or folder"),
    }


def test_unusable_files_are_one_clear_line(tmp_path: Path):
    for path, message in bad(tmp_path).values():
        with pytest.raises(DataError) as error:
            list(read_images(path))
        assert str(error.value).startswith(str(path))
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_names_must_cover_the_numbers_of_labels(tmp_path: Path):
    with pytest.raises(DataError, match=r"image 1: label '1' is not a number below 1"):
        list(read_images(packed(tmp_path / "a.npz"), ["cat"]))

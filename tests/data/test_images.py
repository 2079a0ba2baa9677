"""Images of every kind become the same RGB pixels, and what is none is one clear line."""

import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead.data.image_processor import ImageProcessor
from clearhead.data.images import decode, resize, to_rgb
from clearhead.errors import DataError, ModelError


@pytest.fixture
def colours() -> Image.Image:
    """Four quarters of plain colours, so that lossy files and palettes stay close."""
    pixels = np.zeros((32, 64, 3), dtype=np.uint8)
    pixels[:16, :32], pixels[:16, 32:], pixels[16:, :32], pixels[16:, 32:] = (
        (250, 10, 20),
        (0, 200, 30),
        90,
        255,
    )
    return Image.fromarray(pixels)


def saved(image: Image.Image, kind: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def near(one: Image.Image, other: Image.Image, tolerance: int = 0) -> bool:
    """Whether most pixels agree; JPEG blurs those at edges."""
    first, second = (np.asarray(image, dtype=int) for image in (one, other))
    return first.shape == second.shape and np.quantile(np.abs(first - second), 0.9) <= tolerance


@pytest.mark.parametrize(
    ("kind", "mode", "tolerance"),
    [
        ("PNG", "RGB", 0),
        ("PNG", "P", 0),
        ("BMP", "RGB", 0),
        ("GIF", "P", 0),
        ("WEBP", "RGB", 8),
        ("JPEG", "RGB", 8),
    ],
)
def test_every_file_type_gives_the_same_pixels(colours, kind: str, mode: str, tolerance: int):
    content = saved(colours.quantize(8, dither=Image.Dither.NONE) if mode == "P" else colours, kind)
    assert near(decode(content), colours, tolerance)


def test_grey_images_have_three_equal_channels(colours):
    found = np.asarray(decode(saved(colours.convert("L"), "PNG")))
    assert found.shape == (32, 64, 3)
    assert (found == found[..., :1]).all()


def test_cmyk_becomes_rgb(colours):
    assert near(decode(saved(colours.convert("CMYK"), "JPEG", quality=95)), colours, 8)


def test_alpha_lies_over_white():
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.putpixel((1, 1), (0, 0, 0, 128))
    found = np.asarray(decode(saved(image, "PNG")))
    assert (found[0, 0] == 255).all()
    assert (abs(found[1, 1].astype(int) - 127) <= 1).all()
    assert (np.asarray(to_rgb(Image.new("LA", (2, 2), (0, 0)))) == 255).all()


def test_a_transparent_colour_of_a_palette_is_white():
    image = Image.new("P", (4, 4), 0)
    image.putpalette([10, 20, 30, 200, 0, 0])
    assert (np.asarray(decode(saved(image, "PNG", transparency=0))) == 255).all()


def test_sixteen_bits_are_scaled_to_eight():
    grey = np.array([[0, 257 * 100], [65535, 257 * 7]], dtype=np.uint16)
    found = np.asarray(decode(saved(Image.fromarray(grey), "PNG")))
    assert found[..., 0].tolist() == [[0, 100], [255, 7]]
    assert np.asarray(to_rgb(Image.fromarray(np.array([[0.0, 0.5, 1.0]], dtype=np.float32))))[
        0, :, 0
    ].tolist() == [
        0,
        128,
        255,
    ]


def test_of_an_animation_the_first_frame_counts(colours):
    frames = [Image.new("RGB", colours.size, (0, 0, 255))]
    content = saved(colours, "GIF", save_all=True, append_images=frames)
    assert near(decode(content), colours, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotation_by_exif_is_undone(colours, orientation: int):
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = colours.transpose(undo[orientation]) if orientation in undo else colours
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert near(decode(saved(stored, "PNG", exif=exif.tobytes())), colours)


def bomb(side: int) -> bytes:
    """A small PNG that claims to be this many pixels wide and high."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


BAD = {
    "text": (b"label,text\n1,a cat\n", "not an image, or damaged (no known format)"),
    "nothing": (b"", "not an image, or damaged (no known format)"),
    "bomb": (bomb(100_000), "more than 134 megapixels, perhaps a decompression bomb; make it smaller"),
    # Above our limit, but below the size at which Pillow itself raises an error.
    "a smaller bomb": (bomb(12_000), "more than 134 megapixels"),
    "html": (b"<!DOCTYPE html><html>404</html>", "no known format"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_image_is_one_clear_line(name: str, tmp_path: Path):
    content, message = BAD[name]
    file = tmp_path / "cat.jpg"
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        decode(file)
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP"])
def test_a_truncated_file_is_one_clear_line(kind: str):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    content = saved(noise, kind)
    with pytest.raises(DataError, match=r"^a/cat: not an image, or damaged \(.+\); save it again as \.png$"):
        decode(content[: len(content) // 3], "a/cat")


def test_large_photographs_are_decoded_at_a_fraction_of_their_size_with_almost_the_same_pixels():
    rows, columns = np.mgrid[:1200, :1600]
    pixels = np.stack(
        [np.sin(rows / 90) * 120 + 128, np.cos(columns / 70) * 120 + 128, (rows + columns) / 11], -1
    )
    content = saved(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), "JPEG", quality=95)
    assert decode(content).size == (1600, 1200)
    assert decode(content, at_least=64).size == (200, 150)
    whole, reduced = (resize(decode(content, at_least=size), 32).astype(int) for size in (0, 64))
    assert np.abs(whole - reduced).max() <= 6
    assert decode(content, at_least=1000).size == (1600, 1200)


def test_missing_files_and_folders_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"none\.jpg: no such file"):
        decode(tmp_path / "none.jpg")
    with pytest.raises(DataError, match="is a folder; name an image in it"):
        decode(tmp_path)


def test_an_array_that_is_no_image_is_refused():
    with pytest.raises(DataError, match=r"image: an array of float64 \[2, 2\] is not an image; pass uint8"):
        decode(np.zeros((2, 2)))
    assert decode(np.zeros((2, 3, 1), dtype=np.uint8)).size == (3, 2)


def test_odd_sizes_are_cropped_or_squashed(colours):
    square = resize(colours, 32)
    assert (square == np.asarray(colours)[:, 16:48]).all()
    squashed = resize(colours, 8, "squash", "bilinear")
    assert (squashed == np.asarray(colours.resize((8, 8), Image.Resampling.BILINEAR))).all()
    assert resize(Image.new("RGB", (1, 1), (7, 8, 9)), 4)[3, 3].tolist() == [7, 8, 9]
    with pytest.raises(DataError, match="1 x 5000 pixels are too narrow; crop the image"):
        resize(Image.new("RGB", (1, 5000)), 8)


def test_an_image_of_the_right_size_keeps_its_pixels():
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    for fit in ("crop", "squash"):
        assert (resize(Image.fromarray(pixels), 8, fit) == pixels).all()


def test_a_processor_normalises_each_channel():
    processor = ImageProcessor(2, (0.5, 0.25, 0.0), (0.5, 0.25, 1.0))
    pixels = np.full((2, 2, 3), 255, dtype=np.uint8)
    found = processor([pixels, np.zeros_like(pixels)])
    assert found.shape == (2, 3, 2, 2)
    torch.testing.assert_close(found[:, :, 0, 0], torch.tensor([[1.0, 3.0, 1.0], [-1.0, -1.0, 0.0]]))


def test_a_processor_is_saved_and_loaded(tmp_path: Path):
    processor = ImageProcessor(8, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), ("cat", "dog"), "squash", "bilinear")
    path = tmp_path / processor.FILE
    processor.save(path)
    assert ImageProcessor.load(path) == processor
    assert ImageProcessor.load(path).fingerprint == processor.fingerprint != ImageProcessor(8).fingerprint
    content = json.loads(path.read_text())
    wrong = {"labels": ["cat", "cat"], "std": [1, 2, 0], "mean": [1, 2], "fit": "zoom", "size": 0}
    for name, value in wrong.items():
        path.write_text(json.dumps({**content, name: value}))
        with pytest.raises(ModelError, match=f"'{name}'.*copy the file again"):
            ImageProcessor.load(path)

"""Image files of any kind as RGB pixels; what cannot be decoded is a DataError that names the file."""

import io
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps

from clearhead.errors import DataError

Fit = Literal["crop", "squash"]
Resample = Literal["bilinear", "bicubic"]
ImageSource = str | Path | bytes | Image.Image | NDArray[Any]
"""A file, the bytes of one, a Pillow image, or an array of (height, width), or with 3 or 4 channels last."""
Pixels = UInt8[np.ndarray, "size size 3"]

MAX_PIXELS = 1 << 27
"""A larger image is refused before it is decompressed."""
MAX_SIDES = 200
"""An image with a larger ratio of its sides is refused: a square would show nothing of it."""
WHITE = (255, 255, 255, 255)


def decode(source: ImageSource, location: str = "", at_least: int = 0) -> Image.Image:
    """The image upright and in RGB: the first frame of an animation, alpha over white.

    A JPEG file is decoded at a half, a quarter or an eighth of its size, several times as fast, if both sides
    keep `at_least` pixels; with 0, at its own size.
    """
    location = location or source_name(source)
    if isinstance(source, str | Path):
        source = _read(Path(source))
    try:
        image = _opened(source)
        if image.width * image.height > MAX_PIXELS:
            raise Image.DecompressionBombError
        # An image of the caller stays as it is.
        if at_least and isinstance(source, bytes):
            image.draft(None, (at_least, at_least))
        return to_rgb(ImageOps.exif_transpose(image))
    except Image.DecompressionBombError:
        raise DataError(
            f"{location}: more than {MAX_PIXELS / 1e6:.0f} megapixels, perhaps a decompression bomb; "
            "make it smaller"
        ) from None
    except DataError as error:
        raise DataError(f"{location}: {error}") from None
    # Decoders meet hostile and broken bytes, and raise errors of many kinds.
    except Exception as error:
        raise DataError(
            f"{location}: not an image, or damaged ({_reason(error)}); save it again as .png"
        ) from None


def source_name(source: ImageSource) -> str:
    """What messages call an image: its file, if it has one."""
    return str(source) if isinstance(source, str | Path) else "image"


def resize(image: Image.Image, size: int, fit: Fit = "crop", resample: Resample = "bicubic") -> Pixels:
    """A square: the centre of the image, or all of it without its proportions."""
    method = Image.Resampling[resample.upper()]
    if image.size != (size, size):
        longer, shorter = max(image.size), min(image.size)
        if longer > MAX_SIDES * shorter:
            raise DataError(f"{image.width} x {image.height} pixels are too narrow; crop the image")
        crop = fit == "crop"
        image = ImageOps.fit(image, (size, size), method) if crop else image.resize((size, size), method)
    return np.array(image)


def to_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB with 8 bits: wider greys are scaled, alpha lies over white."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        # Integers are those of 16-bit files, real numbers lie between 0 and 1.
        image = Image.fromarray(
            (values / (1 if image.mode == "F" else 65535) * 255).clip(0, 255).round().astype(np.uint8)
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image)
    return image.convert("RGB")


def _opened(source: bytes | Image.Image | NDArray[Any]) -> Image.Image:
    """An image whose pixels are not decoded yet."""
    if isinstance(source, Image.Image):
        return source
    if isinstance(source, np.ndarray):
        return Image.fromarray(_checked(source))
    with warnings.catch_warnings():
        # Our own limit follows.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(source))


def _checked(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """An array that is an image; one channel loses its axis."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype != np.uint8 or not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))):
        raise DataError(
            f"an array of {pixels.dtype} {list(pixels.shape)} is not an image; pass uint8 of (height, width) "
            "or (height, width, 3)"
        )
    return pixels


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name an image in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _reason(error: Exception) -> str:
    if isinstance(error, Image.UnidentifiedImageError):
        return "no known format"
    return str(error).partition("\n")[0] or type(error).__name__

"""Sample images in a model's folder: a few held-out images, which a run writes and the explorer offers."""

import re
from collections.abc import Sequence
from pathlib import Path

from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from clearhead.files import atomic_path
from clearhead.tasks.zoo import find

FOLDER, COUNT = "samples", 8


def write_samples(out: Path, pixels: UInt8[Tensor, "images 3 size size"], labels: Sequence[str] = ()) -> None:
    """Writes the first images as PNG files, named by number and label, unless they are there."""
    folder = out / FOLDER
    folder.mkdir(exist_ok=True)
    for number, image in enumerate(pixels[:COUNT].permute(0, 2, 3, 1).contiguous().numpy()):
        label = f"-{re.sub(r'[^-.0-9A-Za-z]+', '_', labels[number])[:40]}" if labels else ""
        path = folder / f"{number}{label}.png"
        if not path.exists():
            with atomic_path(path) as temporary:
                Image.fromarray(image).save(temporary, "png")


def sample_images(name: str) -> dict[str, Path]:
    """The samples of a model, by the names of their files; none for a model that was not loaded."""
    if not name:
        return {}
    return {path.stem: path for path in sorted((find(name)[0] / FOLDER).glob("*.png"))}

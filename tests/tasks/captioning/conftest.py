"""Small images of one coloured half, their captions, and a captioner trained on them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clearhead.tasks.captioning.recipe import CaptioningRecipe
from clearhead.tasks.run import train

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "white": (240, 240, 240)}
SIDES = ("left", "right")
SIZE = 16


def picture(colour: str, side: str, random: np.random.Generator) -> np.ndarray:
    """A dark image with one bright half."""
    pixels = random.integers(0, 40, (SIZE, SIZE, 3)).astype(np.uint8)
    half = slice(None, SIZE // 2) if side == "left" else slice(SIZE // 2, None)
    pixels[:, half] = np.clip(np.array(COLOURS[colour]) + random.integers(-20, 20, 3), 0, 255)
    return pixels


def captions(colour: str, side: str) -> list[str]:
    return [
        f"The {side} half is {colour} .",
        f"A {colour} wall on the {side} .",
        f"There is a {colour} wall at the {side} side",
    ]


def write_images(folder: Path, count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Images in a folder; their names and captions."""
    random, rows = np.random.default_rng(seed), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        colour, side = str(random.choice(list(COLOURS))), str(random.choice(SIDES))
        name = f"{seed}-{number}.png"
        Image.fromarray(picture(colour, side, random)).save(folder / name)
        rows += [(name, text) for text in captions(colour, side)]
    return rows


def write_captions(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{name}\t{text}\n" for name, text in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captions.tsv and its images, and one with test.tsv."""
    folder = tmp_path_factory.mktemp("photos")
    write_captions(folder / "captions.tsv", write_images(folder, 160))
    write_captions(folder / "test" / "test.tsv", write_images(folder / "test", 40, seed=1))
    return folder


def recipe(folder: Path, **changes) -> CaptioningRecipe:
    encoder = {
        "image_size": SIZE,
        "patches": {"kind": "convolutional", "channels": [8, 16]},
        "layers": 1,
        "width": 32,
        "ffn_width": 64,
        "attention": {"heads": 2},
        "head": {"pooling": "mean"},
    }
    training = {"steps": 120, "validate_every": 40, "save_every": 40, "device": "cpu", "precision": "fp32"}
    values = {
        "data": {"captions": [str(folder / "captions.tsv")]},
        "tokenizer": {"kind": "word", "vocabulary": 60, "lowercase": True},
        "model": {
            "width": 32,
            "ffn_width": 64,
            "decoder_layers": 1,
            "attention": {"heads": 2},
            "dropout": 0.1,
            "max_length": 16,
            "encoder": encoder,
        },
        "batches": {"images": 16, "row_length": 32},
        "augmentation": {"crop": 1, "flip": 0.0, "zoom": 0.9},
        "training": {
            **training,
            "schedule": {"kind": "cosine", "learning_rate": 1e-2, "warmup": 10},
            "word_dropout": 0.1,
        },
    }
    for group, settings in changes.items():
        values[group] = {**values.get(group, {}), **settings}
    return CaptioningRecipe.model_validate(values)


@pytest.fixture(scope="session")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained captioner."""
    out = tmp_path_factory.mktemp("runs") / "captioner"
    for _ in train(recipe(photos), out):
        pass
    return out

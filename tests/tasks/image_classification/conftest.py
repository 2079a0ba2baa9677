"""Small labelled images, and a classifier trained on them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clearhead.tasks.image_classification.recipe import ImageClassificationRecipe
from clearhead.tasks.run import train

LABELS = ("circle", "square", "stripes")
SIZE = 16


def shape(label: str, random: np.random.Generator) -> np.ndarray:
    """A light shape on a dark ground, or stripes, in random colours and at a random position."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    row, column, radius = *random.integers(5, 11, 2), random.integers(3, 5)
    inside = {
        "circle": (rows - row) ** 2 + (columns - column) ** 2 <= radius**2,
        "square": np.maximum(abs(rows - row), abs(columns - column)) <= radius,
        "stripes": (rows + row) // 2 % 2 == 0,
    }[label]
    light, dark = random.integers(150, 256, 3), random.integers(0, 80, 3)
    noise = random.integers(-10, 11, (SIZE, SIZE, 3))
    return (np.where(inside[..., None], light, dark) + noise).clip(0, 255).astype(np.uint8)


def shapes(count: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    random = np.random.default_rng(seed)
    labels = [LABELS[number % 3] for number in range(count)]
    return np.stack([shape(label, random) for label in labels]), labels


def write_folder(path: Path, count: int, seed: int = 0) -> Path:
    for number, (image, label) in enumerate(zip(*shapes(count, seed), strict=True)):
        (path / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path / label / f"{number}.png")
    return path


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train/ and test/, each with one folder per class."""
    folder = tmp_path_factory.mktemp("images")
    write_folder(folder / "train", 180)
    write_folder(folder / "test", 45, seed=1)
    return folder


def recipe(folder: Path, **changes) -> ImageClassificationRecipe:
    model = {
        "image_size": SIZE,
        "patches": {"kind": "convolutional", "channels": [8, 16]},
        "layers": 1,
        "width": 16,
        "ffn_width": 32,
        "attention": {"heads": 2},
        "head": {"pooling": "sequence", "dropout": 0.0},
    }
    values = {
        "data": {"train": [str(folder / "train")], "test": [str(folder / "test")]},
        "model": model,
        "augmentation": {"crop": 2, "rand_augment": {"operations": 1, "magnitude": 3}, "cutmix": 0.2},
        "batches": {"images": 32},
        "training": {
            "steps": 120,
            "schedule": {"kind": "cosine", "learning_rate": 1e-2, "warmup": 10},
            "validate_every": 40,
            "save_every": 40,
            "ema_decay": 0.9,
            "device": "cpu",
            "precision": "fp32",
        },
    }
    return ImageClassificationRecipe.model_validate({**values, **changes})


@pytest.fixture(scope="session")
def trained(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained classifier."""
    out = tmp_path_factory.mktemp("runs") / "shapes"
    for _ in train(recipe(images), out):
        pass
    return out

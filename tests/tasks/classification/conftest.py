"""Small labelled files, and classifiers trained on them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.tasks.classification.recipe import ClassificationRecipe
from clearhead.tasks.run import train

GOOD, BAD = ["good", "fine", "great", "lovely"], ["bad", "dull", "awful", "poor"]
OTHERS = ["the", "film", "plot", "is", "a", "very", "actor", "and"]


def reviews(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Labels and texts: more good words than bad ones make a text positive."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        label = int(random.integers(2))
        own = random.choice(GOOD if label else BAD, size=2)
        words = [*own, *random.choice(OTHERS, size=random.integers(3, 8))]
        found.append(("pos" if label else "neg", " ".join(random.permutation(words).tolist()) + " ."))
    return found


def write(path: Path, rows: list[tuple[str, str]], header: str = "label\ttext\n") -> Path:
    path.write_text(header + "".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv and test.tsv."""
    folder = tmp_path_factory.mktemp("labelled")
    write(folder / "train.tsv", reviews(300))
    write(folder / "test.tsv", reviews(60, seed=1))
    return folder


def recipe(folder: Path, kind: str, **changes) -> ClassificationRecipe:
    models = {
        "bag": {},
        "bilstm": {"width": 16},
        "encoder": {"width": 16, "ffn_width": 32, "layers": 1, "attention": {"heads": 2}, "max_length": 16},
    }
    training: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
    if kind != "bag":
        schedule = {"kind": "cosine", "learning_rate": 1e-2, "warmup": 5}
        training |= {"steps": 60, "validate_every": 20, "save_every": 20, "schedule": schedule}
    values = {
        "data": {"train": [str(folder / "train.tsv")], "test": [str(folder / "test.tsv")]},
        "model": {"kind": kind, **models[kind]},
        "training": training,
    }
    if kind != "bag":
        values |= {"tokenizer": {"kind": "word", "vocabulary": 100}, "batches": {"tokens": 256}}
    return ClassificationRecipe.model_validate({**values, **changes})


@pytest.fixture(scope="session", params=["bag", "bilstm", "encoder"])
def trained(request: pytest.FixtureRequest, labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained classifier of each kind."""
    out = tmp_path_factory.mktemp("runs") / request.param
    for _ in train(recipe(labelled, request.param), out):
        pass
    return out

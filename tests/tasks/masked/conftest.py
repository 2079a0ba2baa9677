"""Sentences with a choice of words in each, and masked models trained on them."""

from pathlib import Path

import numpy as np
import pytest

from clearhead.tasks.masked.recipe import MaskedRecipe
from clearhead.tasks.run import train

ANIMALS, DRINKS = ["cat", "dog", "cow", "horse"], ["milk", "water", "tea"]


def sentences(count: int, seed: int = 0) -> list[str]:
    """An animal that eats or drinks: the verb decides what may follow."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        animal = random.choice(ANIMALS)
        rest = f"drinks {random.choice(DRINKS)}" if random.random() < 0.5 else "eats grass"
        found.append(f"the {random.choice(['old', 'big', 'red'])} {animal} {rest} .")
    return found


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("masked") / "animals.txt"
    path.write_text("".join(f"{line}\n" for line in sentences(400)), encoding="utf-8")
    return path


def recipe(corpus: Path, causal: float = 0.0, **changes) -> MaskedRecipe:
    values = {
        "data": {"train": [str(corpus)], "documents": "line"},
        "tokenizer": {"kind": "word", "vocabulary": 60},
        "model": {
            "preset": "modern",
            "layers": 2,
            "width": 32,
            "ffn_width": 64,
            "attention": {"heads": 2},
            "max_length": 32,
        },
        "masking": {"causal": causal},
        "batches": {"tokens": 512},
        "training": {
            "steps": 80,
            "validate_every": 40,
            "save_every": 20,
            "device": "cpu",
            "precision": "fp32",
            "schedule": {"kind": "warmup-stable-decay", "learning_rate": 1e-2, "warmup": 5, "decay": 0.5},
        },
    }
    return MaskedRecipe.model_validate({**values, **changes})


@pytest.fixture(scope="session", params=[0.0, 0.5], ids=["masked", "hybrid"])
def trained(request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was trained on masked text, and of one on masked and causal text."""
    out = tmp_path_factory.mktemp("runs") / request.node.name.replace("/", "")
    for _ in train(recipe(corpus, request.param), out):
        pass
    return out

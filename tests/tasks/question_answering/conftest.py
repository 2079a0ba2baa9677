"""Small files of questions, and models trained on them."""

import json
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.tasks.question_answering.model import QuestionAnsweringModel
from clearhead.tasks.question_answering.recipe import QuestionAnsweringRecipe
from clearhead.tasks.run import train

from ..conftest import finish

NAMES = ["Ada", "Bob", "Kim", "Max", "Zoe"]
ROOMS = ["garden", "office", "hallway", "cellar"]
SMALL = {"width": 32, "ffn_width": 64, "layers": 2, "attention": {"heads": 4}, "dropout": 0.0}


def paragraph(random: np.random.Generator) -> dict:
    """Two people in two rooms, and a question about each."""
    names, rooms = random.permutation(NAMES)[:2], random.permutation(ROOMS)[:2]
    context = " ".join(f"{name} is in the {room}." for name, room in zip(names, rooms, strict=True))
    questions = [
        {"question": f"Who is in the {room}?", "answers": [str(name)]}
        for name, room in zip(names, rooms, strict=True)
    ]
    return {"context": context, "questions": questions}


def story(random: np.random.Generator) -> str:
    """Where two people went, and where one of them is, in bAbI's format."""
    names, rooms = random.permutation(NAMES)[:2], random.choice(ROOMS, size=2)
    lines = [f"{number + 1} {names[number]} went to the {rooms[number]}." for number in range(2)]
    chosen = int(random.integers(2))
    return "\n".join([*lines, f"3 Where is {names[chosen]}?\t{rooms[chosen]}\t{chosen + 1}"]) + "\n"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl and test.jsonl for spans, train.txt and test.txt for known answers."""
    folder, random = tmp_path_factory.mktemp("questions"), np.random.default_rng(0)
    for name, count in (("train", 250), ("test", 20)):
        lines = (json.dumps(paragraph(random)) + "\n" for _ in range(count))
        (folder / f"{name}.jsonl").write_text("".join(lines))
        (folder / f"{name}.txt").write_text("".join(story(random) for _ in range(4 * count)))
    return folder


def recipe(folder: Path, kind: str, **changes) -> QuestionAnsweringRecipe:
    suffix, head = (
        ("jsonl", {"kind": "span"}) if kind == "span" else ("txt", {"kind": kind, "pooling": "last"})
    )
    training = {"steps": 100, "validate_every": 50, "save_every": 50, "device": "cpu", "precision": "fp32"}
    values = {
        "data": {"train": [str(folder / f"train.{suffix}")], "test": [str(folder / f"test.{suffix}")]},
        "tokenizer": {"kind": "word", "vocabulary": 100},
        "model": {"kind": "encoder", **SMALL, "token_types": 3, "max_length": 48, "head": head},
        "batches": {"tokens": 1024, "row_length": 24},
        "answers": {"max_tokens": 5, "stride": 8},
        "training": {
            **training,
            "optimizer": {"kind": "muon"},
            "schedule": {"kind": "cosine", "learning_rate": 1e-2, "warmup": 15},
        },
    }
    return QuestionAnsweringRecipe.model_validate({**values, **changes})


@pytest.fixture(scope="session")
def runs(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("span", "classifier"):
        finish(train(recipe(files, kind), folder / kind))
    return folder


@pytest.fixture(params=["span", "classifier"])
def trained(request: pytest.FixtureRequest, runs: Path) -> Path:
    """The folder of a trained model of each kind."""
    return runs / request.param


@pytest.fixture(scope="session")
def finder(runs: Path) -> QuestionAnsweringModel:
    """A model that finds spans."""
    return clearhead.load(runs / "span")

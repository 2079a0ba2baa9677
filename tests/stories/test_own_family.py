"""A family outside the package is trained, killed, resumed, loaded, captured, drawn and explored."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.models import MODELS
from clearhead.tasks import TASKS
from clearhead.tasks.records import read_metrics

from . import sorter

PROGRAM = Path(sorter.__file__)
RECIPE = """
kind = "sorting"
[model]
kind = "sorter"
width = 32
ffn_width = 64
attention = { heads = 2 }
position = "learned"
norm_position = "pre"
dropout = 0.1
layers = 2
length = 5
[training]
steps = 300
optimizer = { kind = "adam" }
schedule = { kind = "constant", learning_rate = 3e-3 }
precision = "fp32"
device = "cpu"
monitor = "accuracy"
report_every = 10
validate_every = 100
save_every = 20
"""


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "sorter", sorter.Sorter)
    monkeypatch.setitem(TASKS, "sorting", sorter.SortingTask)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sorting") / "recipe.toml"
    path.write_text(RECIPE)
    return path


def start(*arguments: str | Path) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str | Path) -> str:
    process = start(*arguments)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return errors


@pytest.fixture(scope="module")
def trained(recipe: Path) -> Path:
    """The folder of an uninterrupted run by the command line."""
    folder = recipe.parent / "trained"
    assert "validation" in run("train", recipe, "--out", folder)
    return folder


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def test_a_killed_and_resumed_run_ends_with_the_same_bits(recipe: Path, trained: Path, tmp_path: Path):
    folder = tmp_path / "killed"
    process = start("train", recipe, "--out", folder)
    try:
        until = time.monotonic() + 120
        while not list((folder / "training").glob("*40*")) and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    run("train", "--resume", "--out", folder)
    assert digest(folder) == digest(trained)


def test_its_own_metric_is_recorded_and_selects_the_best_weights(trained: Path):
    measured = [line for line in read_metrics(trained) if line["kind"] == "validation"]
    assert [line["step"] for line in measured] == [100, 200, 300]
    assert measured[-1]["accuracy"] > 0.8
    assert [line for line in measured if line["best"]]
    assert "accuracy" in (trained / "README.md").read_text()


def test_it_is_loaded_by_name_and_sorts(family, trained: Path):
    model = clearhead.load(trained)
    assert isinstance(model, sorter.SortingModel)
    assert model.sort([3, 1, 4, 1, 5]) == [1, 1, 3, 4, 5]


def test_its_attention_is_captured_and_drawn(family, trained: Path, tmp_path: Path):
    model = clearhead.load(trained)
    with clearhead.capture(model.model, ["encoder.*.weights"]) as trace:
        model.sort([3, 1, 4, 1, 5])
    assert trace["encoder.blocks.0.attention.weights"].shape == (1, 2, 5, 5)
    explanation = model.explain("3 1 4 1 5")
    assert explanation.difference < 1e-5  # explicit and fused attention agree
    assert explanation.save(tmp_path / "atlas.png", "atlas").stat().st_size > 1000
    torch.testing.assert_close(
        explanation["encoder.blocks.1.attention.weights"].sum(-1), torch.ones(2, 5), rtol=1e-5, atol=1e-5
    )


def test_it_opens_in_the_explorer(family, trained: Path):
    model = clearhead.load(trained)
    client = TestClient(make_app(Library([("sorter", model)])), base_url="http://127.0.0.1")
    assert client.get("/api/models").json()["models"][0]["name"] == "sorter"
    answer = client.post("/api/trace", json={"model": "sorter", "text": "3 1 4 1 5"})
    assert answer.status_code == 200, answer.text
    assert "encoder.blocks.*.attention.weights" in json.dumps(answer.json())


def test_the_command_line_names_what_its_models_do(trained: Path):
    process = start("translate", "--model", trained, "x")
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, "this model sorts digits" in errors) == (2, True)

"""From a file of pairs to a translator in use, on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

import clearhead

PROGRAM = Path(sys.executable).with_name("clearhead")


def run(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """The finished program, which must have succeeded."""
    ended = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def trained(tmp_path_factory, number_recipe) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a model trained by a recipe, and the finished program."""
    folder = tmp_path_factory.mktemp("story")
    ended = run("train", number_recipe(folder), "--out", folder / "model")
    return folder / "model", ended


def test_training_writes_a_complete_folder(trained):
    folder, ended = trained
    assert ended.stdout == f"{folder}\n"
    assert "pairs to train on: 330 (400 pairs read, 400 kept)" in ended.stderr
    assert f"clearhead translate --model {folder}" in ended.stderr
    expected = {"config.toml", "tokenizer.json", "model.safetensors", "README.md", "metrics.jsonl"}
    expected |= {"curves.png", "training", "validation.tsv", "test.tsv"}
    assert {path.name for path in folder.iterdir()} == expected
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "README.md").read_text().startswith("# English to German\n")
    assert (folder / "training" / "tensorboard").is_dir()


def test_the_metrics_cover_the_run(trained):
    lines = [json.loads(line) for line in (trained[0] / "metrics.jsonl").read_text().splitlines()]
    steps = {
        kind: [line["step"] for line in lines if line["kind"] == kind] for kind in ("train", "validation")
    }
    assert steps == {"train": list(range(20, 201, 20)), "validation": [50, 100, 150, 200]}
    first, *_, last = [line["loss"] for line in lines if line["kind"] == "validation"]
    assert last < first / 4


def test_the_model_translates_unseen_sentences(trained):
    folder, _ = trained
    unseen = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()]
    assert len(unseen) == 40
    ended = run("translate", "--model", folder, text="".join(f"{source}\n" for source, _ in unseen))
    translations = ended.stdout.splitlines()
    assert ended.stderr == ""
    correct = sum(found == target for found, (_, target) in zip(translations, unseen, strict=True))
    assert correct > 30
    assert [
        str(one) for one in clearhead.load(folder).translate([source for source, _ in unseen])
    ] == translations


def test_the_model_can_be_evaluated(trained):
    measured = json.loads(run("evaluate", trained[0], "--json").stdout)
    assert measured["sentences"] == 40
    scores = {score["name"]: score["value"] for score in measured["scores"]}
    assert scores["BLEU"] > 80
    assert scores["chrF2"] > 80
    assert scores["TER"] < 10


def test_the_folder_contains_no_code_and_no_pickles(trained):
    folder, _ = trained
    assert [path for path in folder.rglob("*") if path.suffix in (".py", ".pt", ".pkl", ".bin")] == []
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert len(list(file.keys())) > 10


def test_a_model_can_be_trained_from_pairs_without_a_recipe(tmp_path, numbers):
    pairs = tmp_path / "numbers.en-de.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(120)))
    shorter = [
        "--set",
        "training.steps=4",
        "--set",
        "model.encoder_layers=1",
        "--set",
        "model.decoder_layers=1",
    ]
    ended = run("train", "--pairs", pairs, "--out", tmp_path / "mine", *shorter)
    for line in (
        "corpus: 120 pairs read, 120 kept",
        "languages: en to de",
        "vocabulary: 1,250 subwords, shared",
        "model: width 128, ffn_width 256, 1 + 1 layers, 4 heads, dropout 0.1",
        "run: 4 steps of about 1,000 tokens",
        "time: at most ",
    ):
        assert line in ended.stderr
    assert clearhead.load(tmp_path / "mine").directions == (("en", "de"),)


@pytest.mark.parametrize("way", ["recipe", "pairs"])
def test_training_refuses_a_folder_with_other_files_and_leaves_them_unchanged(way, tmp_path, number_recipe):
    recipe, project = number_recipe(tmp_path), tmp_path / "project"
    project.mkdir()
    files = {name: f"my {name}" for name in ("README.md", "test.tsv", "config.toml")}
    for name, text in files.items():
        (project / name).write_text(text)
    data = [recipe] if way == "recipe" else ["--pairs", tmp_path / "numbers.en-de.tsv"]
    command = [PROGRAM, "train", *data, "--out", project]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"clearhead: {project}: is not empty and holds no run; choose a new folder\n"
    assert {path.name: path.read_text() for path in project.iterdir()} == files

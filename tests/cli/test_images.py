"""clearhead train --images, classify and evaluate, as a user calls them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SMALL = ["model.width=16", "model.ffn_width=16", "model.layers=1", "model.attention.heads=2"]


def pictures(folder: Path, count: int, seed: int = 0) -> Path:
    """Bright and dark images of different sizes."""
    random = np.random.default_rng(seed)
    for number in range(count):
        label = ("dark", "light")[number % 2]
        (folder / label).mkdir(parents=True, exist_ok=True)
        noise = random.integers(0, 100, (*random.integers(16, 40, 2), 3)) + (150 if label == "light" else 0)
        Image.fromarray(noise.astype(np.uint8)).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    pictures(folder / "train", 40)
    pictures(folder / "test", 10, seed=1)
    return folder


@pytest.fixture
def trained(files: Path, call) -> Path:
    if not (files / "run").exists():
        small = [part for setting in SMALL for part in ("--set", setting)]
        options = ["--set", "training.steps=30", "--set", "training.schedule.learning_rate=0.01", *small]
        result = call("train", "--images", files / "train", "--out", files / "run", *options)
        assert result.code == 0, result.err
        assert "images: 40, the shorter side of the median one" in result.err
        assert "model: images of 32 pixels, 8 x 8 patches, width 16, 1 layer" in result.err
        assert "images to train on: 36, 4 for validation; 2 labels: dark, light" in result.err
        assert re.search(r"step 30 of 30: .* [\d,]+ images/s", result.err)
        assert f"evaluate it: clearhead evaluate {files / 'run'}\n" in result.err
        assert f"try it: clearhead classify --model {files / 'run'} IMAGE\n" in result.err
        assert result.out == f"{files / 'run'}\n"
    return files / "run"


def test_images_get_a_label_and_a_probability(call, trained, files):
    names = [next((files / "test" / label).iterdir()) for label in ("light", "dark")]
    result = call("classify", "--model", trained, *names)
    lines = [line.split("\t") for line in result.lines]
    assert [line[:2] for line in lines] == [[str(names[0]), "light"], [str(names[1]), "dark"]]
    assert all(0.5 < float(line[2]) <= 1 for line in lines)
    assert call("classify", "--model", trained, names[0]).out == result.lines[0].partition("\t")[2] + "\n"


def test_stdin_is_a_list_of_images(call, trained, files):
    names = sorted((files / "test" / "light").iterdir())
    result = call(
        "classify", "--model", trained, "--json", stdin="".join(f"{name}\n" for name in names).encode()
    )
    records = [json.loads(line) for line in result.lines]
    assert [record["image"] for record in records] == list(map(str, names))
    assert not any("text" in record for record in records)
    assert {record["label"] for record in records} == {"light"}
    assert sum(records[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_explain_names_patches(call, trained, files):
    name = next((files / "test" / "light").iterdir())
    result = call("classify", "--model", trained, "--explain", name)
    assert len(result.lines) == 9
    assert all("," in line.split()[1] for line in result.lines[1:])


def test_what_is_no_image_is_one_line_each_and_the_others_get_a_label(call, trained, files, tmp_path):
    bad = tmp_path / "cat.jpg"
    bad.write_text("a cat")
    good = next((files / "test" / "light").iterdir())
    result = call("classify", "--model", trained, good, bad, good, "A fine film.")
    assert result.code == 2
    assert [line.split("\t")[:2] for line in result.lines] == [[str(good), "light"]] * 2
    assert [line for line in result.err.splitlines() if line.startswith("clearhead: ")] == [
        f"clearhead: {bad}: not an image, or damaged (no known format); save it again as .png",
        "clearhead: A fine film.: no such file",
        "clearhead: 2 images could not be read; all others have a label",
    ]
    alone = call("classify", "--model", trained, "A fine film.")
    assert (alone.code, alone.err) == (2, "clearhead: A fine film.: no such file\n")


def test_evaluate_prints_accuracy_and_the_confusion_matrix(call, trained, files):
    result = call("evaluate", trained, "--data", files / "test")
    assert result.lines[0] == f"{files / 'test'}: 10 images"
    assert result.lines[1].startswith("accuracy 100.00%")
    record = json.loads(call("evaluate", trained, "--data", files / "test", "--json").out)
    assert (record["accuracy"], record["confusion"]) == (1.0, [[5, 0], [0, 5]])
    held_out = call("evaluate", trained)
    assert held_out.lines[0].endswith("validation.npz: 4 images")


def test_a_folder_that_cannot_be_trained_on_is_one_line(error_of, tmp_path):
    one = pictures(tmp_path / "one", 1)
    message = error_of("train", "--images", one, "--out", tmp_path / "run")
    assert message == f"{one}: 1 image with the label 'dark' alone; a classifier needs two or more labels"
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "flat" / "1.png")
    assert "has no folders; put the images" in error_of(
        "train", "--images", tmp_path / "flat", "--out", tmp_path / "r"
    )


def test_options_of_other_models_are_refused(error_of, trained):
    message = error_of("evaluate", trained, "--labels", "x.tsv")
    assert message == f"--labels: {trained} classifies images; it takes --data"


def test_without_held_out_images_the_command_to_evaluate_names_the_option(call, files, tmp_path):
    small = [part for setting in SMALL for part in ("--set", setting)]
    nothing = ["--set", "data.hold_out.share=0", "--set", "training.steps=1"]
    result = call("train", "--images", files / "train", "--out", tmp_path / "run", *small, *nothing)
    assert f"evaluate it: clearhead evaluate {tmp_path / 'run'} --data FILE\n" in result.err

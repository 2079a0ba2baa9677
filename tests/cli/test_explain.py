"""clearhead explain, as a user calls it."""

import json
import subprocess
import sys

import pytest
from PIL import Image

from clearhead.checkpoint import save_checkpoint
from clearhead.tasks.load import load

from ..inspection.image_models import PROCESSOR, random_pixels, vit


def test_a_translation_is_drawn_to_the_given_file(call, number_model, tmp_path):
    result = call("explain", number_model, "three one", "--out", tmp_path / "x.svg")
    assert result.code == 0
    assert result.out == f"{tmp_path / 'x.svg'}\n"
    assert "three one -> 3 1" in result.err
    assert "differ by at most" in result.err
    assert "three" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("out", "options", "status"),
    [
        ("x.svg", [], "other pictures: --view atlas, head, "),
        ("x.svg", ["--view", "atlas"], "other pictures: --view cross, head, "),
        ("x.html", [], None),
        ("all", [], None),
    ],
)
def test_the_other_pictures_are_listed(call, number_model, tmp_path, out, options, status):
    result = call("explain", number_model, "three one", "--out", tmp_path / out, *options)
    assert result.code == 0
    assert status in result.err if status else "other pictures" not in result.err


def test_a_prompt_is_continued_and_drawn(call, babbler, tmp_path):
    result = call(
        "explain", babbler, "--tokens", 3, "--view", "lens", "--out", tmp_path / "x.png", stdin=b"to be\n"
    )
    assert result.code == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_fewer_tokens_than_requested_are_reported(call, babbler, tmp_path):
    result = call("explain", babbler, "to be", "--tokens", 100, "--out", tmp_path / "x.json")
    assert result.err.startswith("--tokens 100: only 27 fit into the context of 32 tokens\n")


def test_json_output_names_the_file(call, number_model, tmp_path):
    result = call("explain", number_model, "three one", "--out", tmp_path / "x.json", "--json")
    assert json.loads(result.out) == {"text": "three one", "output": "3 1", "file": str(tmp_path / "x.json")}
    assert json.loads((tmp_path / "x.json").read_text())["output"] == "3 1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.gif"], "x.gif: cannot write .gif files; use .png, .svg, .pdf"),
        (["--out", "none/x.png"], "none/x.png: there is no folder none; create it first"),
        (["--view", "left"], "--view: 'left' is not one of cross, atlas, head"),
        (["--view", "head", "--layer", "9"], "--layer: 9 is out of range"),
        (["--tokens", "5"], "--tokens: "),
        (["--to", "fr"], "--to fr: this model translates en-de only"),
        (["--target", ""], "--target: is blank; pass a translation, or omit it to explain the model's own"),
        (["--target", " \u200b"], "--target: is blank"),
        (["--attention", "up", "--view", "atlas"], "--attention: 'up' is not one of encoder, decoder, cross"),
    ],
)
def test_invalid_options_are_rejected(error_of, number_model, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert error_of("explain", number_model, "one two", *options).startswith(message)
    assert not list(tmp_path.iterdir())


def test_options_of_translators_are_rejected_for_a_language_model(error_of, babbler, tmp_path):
    error = error_of("explain", babbler, "to be", "--to", "de", "--out", tmp_path / "x.png")
    assert error == f"--to: {babbler} continues text; it takes --tokens"


def test_a_blank_text_is_rejected(error_of, number_model, tmp_path):
    assert "blank" in error_of("explain", number_model, " ", "--out", tmp_path / "x.png")


def test_a_fresh_process_writes_the_page(number_model, tmp_path):
    """Nothing but the command itself may have imported the explorer, which adds the format."""
    command = [sys.executable, "-m", "clearhead", "explain", str(number_model), "one two"]
    result = subprocess.run([*command, "--out", str(tmp_path / "x.html")], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


@pytest.fixture(scope="module")
def image_classifier(tmp_path_factory):
    """The folder of an untrained classifier of images, with an image in it."""
    folder = tmp_path_factory.mktemp("classifier")
    save_checkpoint(folder, vit(), PROCESSOR, {"kind": "image_classification"})
    Image.fromarray(random_pixels().permute(1, 2, 0).numpy()).save(folder / "cat.png")
    return folder


@pytest.mark.parametrize(
    ("out", "options"),
    [("x.svg", ["--view", "patches"]), ("x.png", ["--view", "rollout"]), ("x.html", []), ("all", [])],
)
def test_an_image_is_explained(call, image_classifier, tmp_path, out, options):
    result = call(
        "explain", image_classifier, image_classifier / "cat.png", "--out", tmp_path / out, *options
    )
    assert result.code == 0, result.err
    assert f"cat.png -> {load(image_classifier).classify(image_classifier / 'cat.png').label}" in result.err
    assert (tmp_path / out).exists()
    if out == "all":
        assert {"patches.png", "distance.png", "grid.png"} <= {
            path.name for path in (tmp_path / out).iterdir()
        }


def test_the_numbers_of_an_image_hold_its_probabilities(call, image_classifier, tmp_path):
    result = call("explain", image_classifier, image_classifier / "cat.png", "--out", tmp_path / "x.json")
    assert result.code == 0
    saved = json.loads((tmp_path / "x.json").read_text())
    assert (
        saved["probabilities"] == load(image_classifier).classify(image_classifier / "cat.png").probabilities
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ([], "this model reads images; name an image file"),
        (["missing.png"], "missing.png: no such file"),
        (["pyproject.toml"], "pyproject.toml: not an image, or damaged (no known format)"),
    ],
)
def test_an_image_that_cannot_be_read_is_one_line(call, image_classifier, tmp_path, text, line):
    result = call("explain", image_classifier, *text, "--out", tmp_path / "x.png")
    assert result.code == 2
    assert line in result.err
    assert result.err.count("\n") == 1

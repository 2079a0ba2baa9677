"""clearhead train --captions, caption, explain and evaluate, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain images, and a file with two captions of each."""
    folder, random, lines = tmp_path_factory.mktemp("photos"), np.random.default_rng(0), ["image,caption"]
    for number in range(50):
        colour = ("red", "blue")[number % 2]
        pixels = np.clip(random.normal(COLOURS[colour], 20, (20, 24, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
        lines += [f"{number}.jpg,a {colour} wall", f'{number}.jpg,"{colour}, all of it"']
    (folder / "captions.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def trained(photos: Path, call) -> Path:
    if not (photos / "run").exists():
        smaller = ["encoder.image_size=16", "encoder.layers=1", "max_length=16"]
        result = call(
            *("train", "--captions", photos / "captions.txt", "--out", photos / "run"),
            *(f for setting in smaller for f in ("--set", f"model.{setting}")),
            *("--set", "training.steps=30", "--set", "training.validate_every=30"),
            *("--set", "training.device=cpu", "--set", "training.schedule.learning_rate=5e-3"),
        )
        assert result.code == 0, result.err
        assert "images: 45 to train on, 5 for validation; 2.0 captions each" in result.err
        assert "time: at most " in result.err
        assert result.out == f"{photos / 'run'}\n"
    return photos / "run"


def test_images_get_captions(call, trained, photos):
    result = call("caption", "--model", trained, photos / "0.jpg")
    assert "red" in result.out
    several = call("caption", "--model", trained, photos / "0.jpg", photos / "1.jpg")
    assert [line.split("\t")[0] for line in several.lines] == [str(photos / "0.jpg"), str(photos / "1.jpg")]
    assert several.lines[0].split("\t")[1] == result.out.rstrip("\n")
    assert "blue" in several.lines[1]


def test_paths_come_from_stdin_and_records_go_to_stdout(call, trained, photos):
    paths = "".join(f"{photos / name}\n" for name in ("0.jpg", "1.jpg")).encode()
    result = call("caption", "--model", trained, "--json", "--beam", 3, "--nbest", 2, stdin=paths)
    records = [json.loads(line) for line in result.lines]
    assert [record["image"] for record in records] == [str(photos / "0.jpg"), str(photos / "1.jpg")]
    assert all(len(record["nbest"]) == 2 for record in records)
    assert all(record["caption"] == record["nbest"][0]["caption"] for record in records)


def test_an_image_that_cannot_be_read_does_not_stop_the_others(call, trained, photos, tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    good, bad = photos / "0.jpg", (tmp_path / "text.jpg", tmp_path / "no.jpg")
    result = call("caption", "--model", trained, good, *bad, good)
    assert result.code == 2
    assert [line.split("\t")[0] for line in result.lines] == [str(good)] * 2
    assert f"{tmp_path / 'text.jpg'}: not an image, or damaged (no known format)" in result.err
    assert f"{tmp_path / 'no.jpg'}: no such file" in result.err
    assert result.err.endswith("2 images could not be read; all others are described\n")


def test_a_single_bad_image_is_one_line(error_of, trained, tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    assert error_of("caption", "--model", trained, tmp_path / "text.jpg").startswith(
        f"{tmp_path / 'text.jpg'}: not an image"
    )


def test_regions_are_drawn_over_the_image(call, trained, photos, tmp_path):
    out = tmp_path / "regions.png"
    result = call("explain", trained, photos / "0.jpg", "--view", "regions", "--out", out)
    assert result.code == 0, result.err
    assert f"{photos / '0.jpg'} -> " in result.err
    with Image.open(out) as drawn:
        assert drawn.size[0] > 300


def test_evaluation_prints_scores_beside_their_floors(call, trained, photos, tmp_path):
    result = call("evaluate", trained, "--out", tmp_path / "captions.tsv")
    assert result.code == 0, result.err
    for part in ("on 5 images", "BLEU-4 ", "CIDEr-D", "shuffled images", "constant caption", "one person"):
        assert part in result.out
    assert len((tmp_path / "captions.tsv").read_text().splitlines()) == 5
    record = json.loads(call("evaluate", trained, "--data", photos / "captions.txt", "--json").out)
    assert record["images"] == 50
    assert record["bleu_1"] > record["bleu_4"] >= 0


def test_too_few_captioned_images_are_one_line(error_of, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "captions.tsv").write_text("a.png\ta black square\nb.png\ta dog\n")
    message = error_of("train", "--captions", tmp_path / "captions.tsv", "--out", tmp_path / "r")
    assert (
        "images with captions to train on; a captioner needs at least 20" in message
        or "no image is left" in message
    )

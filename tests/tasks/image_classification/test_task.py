"""Image classifiers are trained, resumed, saved, loaded, used and evaluated."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.errors import DataError, ModelError, TextError, TrainingError
from clearhead.tasks.events import Note
from clearhead.tasks.records import read_metrics
from clearhead.tasks.run import resume, train

from ..conftest import finish, interrupted_at
from .conftest import LABELS, recipe, shapes, write_folder


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def test_a_trained_classifier_is_loaded_and_classifies(trained: Path, images: Path):
    model = clearhead.load(trained)
    assert model.labels == LABELS
    pixels, labels = shapes(30, seed=5)
    found = model.classify([*pixels])
    assert np.mean([one.label == label for one, label in zip(found, labels, strict=True)]) > 0.8
    assert sum(found[0].probabilities.values()) == pytest.approx(1, abs=1e-5)
    file = next((images / "test" / "square").iterdir())
    one = model.classify(file)
    assert one == model.classify([str(file)])[0]
    assert (one.text, one.probability) == (str(file), max(one.probabilities.values()))
    assert one.probabilities == model.classify(Image.open(file)).probabilities
    assert one.probabilities == model.classify(file.read_bytes()).probabilities
    assert model.classify([]) == []


def test_what_is_classified_beside_an_image_does_not_change_its_label(trained: Path):
    model = clearhead.load(trained)
    pixels = model.processor.pixels([*shapes(7, seed=2)[0]])
    alone = torch.cat([model.pixel_logits(one[None]) for one in pixels])
    torch.testing.assert_close(model.pixel_logits(pixels), alone, rtol=1e-4, atol=1e-5)


def test_evaluation_measures_the_recipes_test_images(trained: Path):
    found = clearhead.load(trained).evaluate(trained)
    assert found.record["images"] == 45
    assert found.record["accuracy"] > 0.8
    assert found.record["accuracy_with_flips"] > 0.8
    assert 0 <= found.record["calibration_error"] < 0.5
    assert sum(map(sum, found.record["confusion"])) == 45
    assert any("macro-F1" in line for line in found.lines)


def test_evaluation_takes_a_folder_or_a_file_of_ones_own(trained: Path, tmp_path: Path):
    model = clearhead.load(trained)
    folder = write_folder(tmp_path / "mine", 12, seed=7)
    (folder / "circle" / "broken.jpg").write_text("not an image")
    found = model.evaluate(trained, data=str(folder))
    assert (found.record["images"], found.record["left_out"]) == (12, 1)
    assert "left out 1 image; the first:" in found.notes[0]
    images, labels = shapes(12, seed=7)
    np.savez(tmp_path / "mine.npz", images=images, labels=np.array(labels))
    assert (
        model.evaluate(trained, data=str(tmp_path / "mine.npz")).record["confusion"]
        == found.record["confusion"]
    )
    np.savez(tmp_path / "other.npz", images=images, labels=np.array(["hexagon"] * 12))
    with pytest.raises(DataError, match="label 'hexagon' is not in the training data, which has 'circle'"):
        model.evaluate(trained, data=str(tmp_path / "other.npz"))


def test_the_held_out_images_are_evaluated_if_there_are_no_others(images: Path, tmp_path: Path):
    settings = recipe(images, data={"train": [str(images / "train")]})
    short = settings.training.model_copy(update={"steps": 2})
    finish(train(settings.model_copy(update={"training": short}), tmp_path / "run"))
    [final] = [line for line in read_metrics(tmp_path / "run") if line["kind"] == "final"]
    found = clearhead.load(tmp_path / "run").evaluate(tmp_path / "run")
    assert found.record["images"] == 18
    assert found.record["accuracy"] == pytest.approx(final["accuracy"])


def test_validation_selects_by_accuracy_and_the_card_reports_it(trained: Path):
    [final] = [line for line in read_metrics(trained) if line["kind"] == "final"]
    assert final["accuracy"] > 0.7
    card = (trained / "README.md").read_text()
    assert "accuracy" in card
    assert "circle, square, stripes" in card


def test_evidence_names_the_patches_that_decide(trained: Path):
    model = clearhead.load(trained)
    image = shapes(3, seed=4)[0][1]
    evidence = model.evidence(image, "square")
    assert len(evidence) == 16
    assert list(evidence.values()) == sorted(evidence.values(), key=abs, reverse=True)
    hidden = image.copy()
    row, column = map(int, next(iter(evidence)).split(","))
    hidden[row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] = np.round(
        np.array(model.processor.mean) * 255
    )
    whole, without = (
        torch.tensor([model.classify(one).probabilities["square"]]).log() for one in (image, hidden)
    )
    assert float(whole - without) == pytest.approx(next(iter(evidence.values())), abs=1e-4)
    with pytest.raises(TextError, match="label: 'hexagon' is not one of circle, square, stripes"):
        model.evidence(image, "hexagon")


def test_an_interrupted_run_resumes_to_the_same_bits(trained: Path, images: Path, tmp_path: Path):
    assert interrupted_at({27, 71}, train(recipe(images), tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    assert digest(tmp_path / "parts") == digest(trained)


def test_a_resumed_run_notices_other_data(tmp_path: Path):
    write_folder(tmp_path / "train", 60)
    settings = recipe(tmp_path, data={"train": [str(tmp_path / "train")]})
    assert interrupted_at({5}, train(settings, tmp_path / "run")).interrupted
    (tmp_path / "train" / "circle" / "0.png").unlink()
    with pytest.raises(TrainingError, match="data: the files have changed"):
        finish(resume(tmp_path / "run"))


def test_training_goes_on_without_bad_images_and_counts_them(tmp_path: Path):
    folder = write_folder(tmp_path / "train", 60)
    for number in range(5):
        (folder / "circle" / f"text{number}.jpg").write_text("not an image")
    settings = recipe(tmp_path, data={"train": [str(folder)]})
    events = train(settings, tmp_path / "run")
    notes = [event.text for event, _ in zip(events, range(8), strict=False) if isinstance(event, Note)]
    events.close()
    assert any(
        "images to train on: 54, 6 for validation" in note and "5 images left out" in note for note in notes
    )
    assert sum(note.startswith("left out: ") for note in notes) == 4
    assert "left out: 2 more" in notes


def test_a_damaged_processor_is_refused(trained: Path, tmp_path: Path):
    for name in ("config.toml", "processor.json", WEIGHTS):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    clearhead.load(tmp_path)
    content = json.loads((tmp_path / "processor.json").read_text())
    (tmp_path / "processor.json").write_text(json.dumps({**content, "labels": list(reversed(LABELS))}))
    with pytest.raises(ModelError, match="the files belong to different models"):
        clearhead.load(tmp_path)

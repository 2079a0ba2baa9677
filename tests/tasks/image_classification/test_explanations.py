"""Explanations of image classifiers: a captured pass, the relevance of patches, samples for the explorer."""

import numpy as np
import pytest
import torch
from PIL import Image

import clearhead
from clearhead.errors import TextError
from clearhead.inspection import HidePatches, intervene
from clearhead.inspection.relevance import GRADIENT, RANDOM, ROLLOUT
from clearhead.tasks.image_classification.model import ImageClassificationModel
from clearhead.tasks.image_classification.relevance import OCCLUSION
from clearhead.tasks.samples import sample_images, write_samples

from ...inspection.image_models import POOLED, PROCESSOR, STEM, random_pixels, vit
from .conftest import shapes

IMAGE = random_pixels().permute(1, 2, 0).numpy()


@pytest.fixture(params=[{}, POOLED, STEM], ids=["class token", "sequence pooling", "stem and mean"])
def classifier(request) -> ImageClassificationModel:
    return ImageClassificationModel(vit(**request.param), PROCESSOR)


def test_an_explanation_holds_the_class_and_the_pixels(classifier):
    explanation = classifier.explain(IMAGE)
    assert explanation.output == classifier.classify(IMAGE).label
    assert explanation.found.probabilities == classifier.classify(IMAGE).probabilities
    assert np.array_equal(explanation.images["image"].pixels.numpy(), IMAGE)
    assert explanation.difference < 1e-5
    assert len(explanation.sides["image"]) == classifier.model.config.max_positions


def test_the_relevance_of_hiding_a_patch_is_the_fall_of_the_log_probability(classifier):
    found = classifier.relevance(IMAGE, "dog")
    before = classifier.model.config.class_tokens
    whole = classifier.classify(IMAGE).probabilities["dog"]
    for row, column in ((0, 0), (2, 3)):
        with intervene(classifier.model, {"embedding.pixels": HidePatches([(row, column)])}):
            hidden = classifier.classify(IMAGE).probabilities["dog"]
        value = float(found.values[OCCLUSION][before + 4 * row + column])
        assert value == pytest.approx(np.log(whole) - np.log(hidden), abs=1e-4)
    assert found.deletion.probability == pytest.approx([whole], abs=1e-5)
    assert set(found.deletion.without) >= {OCCLUSION, GRADIENT, ROLLOUT, RANDOM}


def test_relevance_and_evidence_agree_on_a_patch():
    classifier = ImageClassificationModel(vit(), PROCESSOR)
    # Grey in evidence is rounded to whole pixels.
    evidence, found = classifier.evidence(IMAGE, "cat"), classifier.relevance(IMAGE, "cat")
    values = {name: float(found.values[OCCLUSION][1 + at]) for at, name in enumerate(grid_names())}
    assert values == pytest.approx(evidence, abs=0.02)


def test_relevance_is_drawn_over_the_image():
    picture = ImageClassificationModel(vit(), PROCESSOR).explain(IMAGE).picture("relevance")
    assert "each patch supports" in picture.caption
    assert "hiding each patch" in picture.alt
    assert picture.content("png").startswith(b"\x89PNG")


def test_the_relevance_of_an_unknown_label_is_one_line():
    with pytest.raises(TextError, match="label: 'cow' is not one of cat, dog, horse"):
        ImageClassificationModel(vit(), PROCESSOR).relevance(IMAGE, "cow")


def test_samples_are_written_once_and_named_by_label(tmp_path):
    write_samples(tmp_path, random_pixels()[None], ["hot dog/bun"])
    assert list(sample_images(str(tmp_path))) == ["0-hot_dog_bun"]
    path = sample_images(str(tmp_path))["0-hot_dog_bun"]
    assert np.array_equal(np.array(Image.open(path)), IMAGE)
    path.write_bytes(b"changed")
    write_samples(tmp_path, random_pixels()[None], ["hot dog/bun"])
    assert path.read_bytes() == b"changed"
    assert sample_images("") == {}


def grid_names() -> list[str]:
    return [f"{row},{column}" for row in range(4) for column in range(4)]


def test_inputs_are_normalised_by_the_processor():
    """Zero is the mean colour, which hidden patches take."""
    mean = torch.tensor(PROCESSOR.mean)[None, :, None, None] * 255
    assert PROCESSOR.normalize(mean.expand(1, 3, 2, 2)).abs().max() < 1e-6


def test_a_run_writes_held_out_images_for_the_explorer(trained):
    model = clearhead.load(trained)
    assert [name.split("-")[1] for name in model.samples] == ["circle", "square", "stripes"]
    assert [model.explain(path).text for path in model.samples.values()] == list(
        map(str, model.samples.values())
    )


def test_patches_that_matter_by_hiding_them_decide_the_class_of_a_trained_model(trained):
    """More than patches in a random order do, on average over images."""
    model, falls = clearhead.load(trained), {OCCLUSION: 0.0, RANDOM: 0.0}
    for image in shapes(6, seed=5)[0]:
        test = model.relevance(image).deletion
        for method in falls:
            falls[method] += test.comprehensiveness(method) / 6
    assert falls[OCCLUSION] > falls[RANDOM] + 0.05

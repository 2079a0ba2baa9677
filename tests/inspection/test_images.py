"""An explanation may carry an image; its patches are positions like tokens."""

import json

import pytest
import torch
from torch import nn

from clearhead.errors import SettingsError
from clearhead.inspection import Explanation, Token, explain_pass
from clearhead.inspection.pictures.draw import views

from .image_models import GRID, Patches, Writer, model_input, photo

DIGITS = [Token(number, str(number), word=number) for number in (1, 7, 4)]


def explain(kind: type[nn.Module], **options) -> Explanation:
    torch.manual_seed(0)
    model, image = kind().eval(), photo()
    pixels = model_input(image)
    given = {"names": ["*"], "text": "photo.png", "images": {"image": image}, **options}
    if kind is Patches:
        return explain_pass(model, lambda: model(pixels), {}, output="cat", **given)
    digits = torch.tensor([[token.id for token in DIGITS]])
    return explain_pass(model, lambda: model(pixels, digits)[0], {"text": DIGITS}, output="74", **given)


def test_the_positions_of_an_image_are_named_by_row_and_column():
    image = photo()
    assert image.names[:6] == ["[CLS]", "0,0", "0,1", "0,2", "0,3", "1,0"]
    assert image.names[image.position(2, 1)] == "2,1"
    assert image.patches == 12


def test_values_of_positions_become_a_map_without_the_class_token():
    image = photo()
    found = image.on_grid(torch.arange(13.0))
    assert found.shape == GRID
    assert found[2, 1] == image.position(2, 1)


def test_a_patch_outside_the_image_is_an_error_that_names_the_grid():
    with pytest.raises(SettingsError, match=r"patch: 3,0 is outside the image; it has 3 × 4"):
        photo().position(3, 0)


def test_an_explanation_of_an_image_has_a_token_for_each_position():
    explanation = explain(Patches)
    assert [token.piece for token in explanation.sides["image"]] == photo().names
    assert all(token.special for token in explanation.sides["image"])
    assert explanation.difference < 1e-5
    assert explanation["body.blocks.1.attention.weights"].shape == (2, 13, 13)


@pytest.mark.parametrize("kind", [Patches, Writer])
def test_every_view_of_a_model_of_images_is_drawn(kind, tmp_path):
    explanation = explain(kind)
    for view in views(explanation):
        assert explanation.picture(view).content("svg")
    saved = json.loads(explanation.save(tmp_path / "image.json").read_text())
    assert [token["piece"] for token in saved["sides"]["image"]] == photo().names

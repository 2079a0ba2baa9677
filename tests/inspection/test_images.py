"""An explanation may carry an image; its patches are positions like tokens."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.errors import SettingsError
from clearhead.inspection import Explanation, Token, Trace, explain_pass
from clearhead.inspection.image import PatchImage, attention_distance
from clearhead.inspection.pictures.draw import views
from clearhead.inspection.pictures.overlay import HEAT
from clearhead.inspection.summaries import rollout

from .image_models import GRID, Patches, Writer, model_input, photo

DIGITS = [Token(1, "1", next=7), Token(7, "7", word=0, next=4), Token(4, "4", word=1)]


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


def test_the_distance_of_a_head_is_that_of_the_patches_it_attends_to():
    """Heads that attend to the patch itself, to its right neighbour, and evenly."""
    image = photo()
    own = torch.eye(13)
    right = torch.zeros(13, 13)
    for row in range(GRID[0]):
        for column in range(GRID[1] - 1):
            right[image.position(row, column), image.position(row, column + 1)] = 1.0
    right[:, 0] = 0.5
    found = attention_distance(torch.stack([own, right, torch.full((13, 13), 1 / 13)]), image)
    by_hand = [
        ((one - other) ** 2).sum() ** 0.5 * 2
        for one in torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))
        for other in torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))
    ]
    assert found.tolist() == pytest.approx([0.0, 2.0, float(sum(by_hand)) / len(by_hand)])


def test_the_views_of_an_image_come_first():
    assert views(explain(Patches))[:4] == ["patches", "rollout", "distance", "atlas"]
    assert views(explain(Writer))[:2] == ["regions", "patches"]


def test_patches_draws_the_row_of_the_class_token_of_every_head():
    explanation = explain(Patches)
    weights = explanation["body.blocks.1.attention.weights"]
    drawn = shown_maps(explanation, "patches")
    assert len(drawn) == 3
    for head in range(2):
        assert torch.equal(drawn[head], weights[head, 0, 1:].view(GRID))
    assert torch.allclose(drawn[2], weights[:, 0, 1:].mean(0).view(GRID))


def test_patches_draws_the_row_of_a_selected_patch():
    explanation, image = explain(Patches), photo()
    drawn = shown_maps(explanation, "patches", layer=0, query=image.position(2, 3))
    weights = explanation["body.blocks.0.attention.weights"]
    assert torch.equal(drawn[1], weights[1, image.position(2, 3), 1:].view(GRID))
    picture = explanation.picture("patches", layer=0, query=image.position(2, 3))
    assert "patch 2,3" in picture.caption


def test_without_a_class_token_patches_draws_the_attention_that_is_received():
    torch.manual_seed(0)
    model, with_token = Patches().eval(), photo()
    image = PatchImage(with_token.pixels, with_token.grid)
    # As if all positions but the first were the image.
    explanation = explain_pass(model, lambda: model(model_input(image)), {}, images={"image": with_token})
    pooled = replace(explanation, images={"image": image}, sides={"image": explanation.target[1:]})
    names = [f"body.blocks.{layer}.attention.weights" for layer in range(2)]
    pooled = replace(pooled, trace=Trace({name: explanation.trace[name][..., 1:, 1:] for name in names}))
    weights = pooled["body.blocks.1.attention.weights"]
    drawn = shown_maps(pooled, "patches")
    assert torch.allclose(drawn[0], weights[0].mean(0).view(GRID))


def test_rollout_is_drawn_after_every_layer():
    explanation = explain(Patches)
    layers = [explanation[f"body.blocks.{layer}.attention.weights"] for layer in range(2)]
    drawn = shown_maps(explanation, "rollout")
    assert torch.allclose(drawn[1], rollout(torch.stack(layers))[-1, 0, 1:].view(GRID))


def test_regions_draws_where_the_model_looked_when_it_wrote_each_token():
    explanation = explain(Writer)
    weights = explanation["decoder.blocks.1.cross_attention.weights"]
    drawn = shown_maps(explanation, "regions")
    assert len(drawn) == 2
    assert torch.allclose(drawn[1], weights[:, 1, 1:].mean(0).view(GRID))
    assert torch.equal(
        shown_maps(explanation, "regions", layer=0, head=1)[0],
        explanation["decoder.blocks.0.cross_attention.weights"][1, 0, 1:].view(GRID),
    )
    assert "“7”" in explanation.picture("regions").alt


@pytest.mark.parametrize(
    ("view", "selection", "line"),
    [
        ("patches", {"layer": 2}, "layer: 2 is out of range; encoder has layers 0 to 1"),
        ("patches", {"query": 13}, "query: 13 is out of range; the image has positions 0 to 12"),
        ("rollout", {"attention": "cross"}, "attention: 'cross' is not one of encoder"),
        ("distance", {"head": 0}, "head: 0 does not apply to the view distance; it applies to head, row"),
    ],
)
def test_a_selection_outside_the_image_is_an_error(view, selection, line):
    with pytest.raises(SettingsError, match=re.escape(line)):
        explain(Patches).picture(view, **selection)


def shown_maps(explanation: Explanation, view: str, **selection) -> list[torch.Tensor]:
    """The numbers behind the maps of a picture."""
    figure = explanation.picture(view, **selection).figure
    images = [image for axes in figure.axes for image in axes.images if image.get_cmap() is HEAT]
    return [torch.from_numpy(np.array(image.get_array())) for image in images]


@pytest.mark.parametrize("kind", [Patches, Writer])
def test_every_view_of_a_model_of_images_is_drawn(kind, tmp_path):
    explanation = explain(kind)
    for view in views(explanation):
        assert explanation.picture(view).content("svg")
    saved = json.loads(explanation.save(tmp_path / "image.json").read_text())
    assert [token["piece"] for token in saved["sides"]["image"]] == photo().names

"""An explanation may carry an image; its patches are positions like tokens."""

import json
import re
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.errors import SettingsError
from clearhead.inspection import Explanation, HidePatches, SetPosition, Swap, Token, explain_pass, intervene
from clearhead.inspection.image import attention_distance, principal_filters
from clearhead.inspection.pictures.draw import views
from clearhead.inspection.pictures.overlay import HEAT
from clearhead.inspection.summaries import rollout
from clearhead.models.vit import ViT

from .image_models import GRID, POOLED, STEM, Writer, model_input, photo, vit

DIGITS = [Token(1, "1", next=7), Token(7, "7", word=0, next=4), Token(4, "4", word=1)]


def writer() -> Writer:
    torch.manual_seed(0)
    return Writer().eval()


def explain(model: ViT | Writer | None = None, **options: Any) -> Explanation:
    model = model or vit()
    pixels, image = model_input(), photo(model if isinstance(model, ViT) else model.image)
    given = {"text": "photo.png", "images": {"image": image}, **options}
    if isinstance(model, ViT):
        return explain_pass(model, lambda: model(pixels), {}, output="cat", **given)
    digits = torch.tensor([[token.id for token in DIGITS]])
    return explain_pass(model, lambda: model(pixels, digits)[0], {"text": DIGITS}, output="74", **given)


def test_the_positions_of_an_image_are_named_by_row_and_column():
    image = photo()
    assert image.names[:6] == ["[CLS]", "0,0", "0,1", "0,2", "0,3", "1,0"]
    assert image.names[image.position(2, 1)] == "2,1"
    assert image.patches == 16


def test_values_of_positions_become_a_map_without_the_class_token():
    image = photo()
    found = image.on_grid(torch.arange(17.0))
    assert found.shape == GRID
    assert found[2, 1] == image.position(2, 1)


def test_a_patch_outside_the_image_is_an_error_that_names_the_grid():
    with pytest.raises(SettingsError, match=r"patch: 4,0 is outside the image; it has 4 × 4"):
        photo().position(4, 0)


def test_an_explanation_of_an_image_has_a_token_for_each_position():
    explanation = explain()
    assert [token.piece for token in explanation.sides["image"]] == photo().names
    assert all(token.special for token in explanation.sides["image"])
    assert explanation.difference < 1e-5
    assert explanation["encoder.blocks.1.attention.weights"].shape == (2, 17, 17)


def test_the_distance_of_a_head_is_that_of_the_patches_it_attends_to():
    """Heads that attend to the patch itself, to its right neighbour, and evenly."""
    image = photo()
    own = torch.eye(17)
    right = torch.zeros(17, 17)
    for row in range(GRID[0]):
        for column in range(GRID[1] - 1):
            right[image.position(row, column), image.position(row, column + 1)] = 1.0
    right[:, 0] = 0.5
    found = attention_distance(torch.stack([own, right, torch.full((17, 17), 1 / 17)]), image)
    by_hand = [
        ((one - other) ** 2).sum() ** 0.5 * 2
        for one in torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        for other in torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
    ]
    assert found.tolist() == pytest.approx([0.0, 2.0, float(sum(by_hand)) / len(by_hand)])


def test_the_views_of_an_image_come_first():
    assert views(explain())[:4] == ["patches", "rollout", "distance", "grid"]
    assert views(explain(writer()))[:2] == ["regions", "patches"]


def test_patches_draws_the_row_of_the_class_token_of_every_head():
    explanation = explain()
    weights = explanation["encoder.blocks.1.attention.weights"]
    drawn = shown_maps(explanation, "patches")
    assert len(drawn) == 3
    for head in range(2):
        assert torch.equal(drawn[head], weights[head, 0, 1:].view(GRID))
    assert torch.allclose(drawn[2], weights[:, 0, 1:].mean(0).view(GRID))


def test_patches_draws_the_row_of_a_selected_patch():
    explanation, image = explain(), photo()
    drawn = shown_maps(explanation, "patches", layer=0, query=image.position(2, 3))
    weights = explanation["encoder.blocks.0.attention.weights"]
    assert torch.equal(drawn[1], weights[1, image.position(2, 3), 1:].view(GRID))
    picture = explanation.picture("patches", layer=0, query=image.position(2, 3))
    assert "patch 2,3" in picture.caption


def test_with_sequence_pooling_patches_draws_the_pooling_and_the_attention_under_it():
    model = vit(**POOLED)
    explanation = explain(model)
    weights = explanation["encoder.blocks.1.attention.weights"]
    with torch.no_grad():
        states = model.states(model_input())
        pooling = model.head.score(states)[0, :, 0].softmax(0)
    drawn = shown_maps(explanation, "patches")
    assert torch.allclose(drawn[0], pooling.view(GRID), atol=1e-6)
    assert torch.allclose(drawn[1], (pooling @ weights[0]).view(GRID), atol=1e-6)
    assert "the pooled image" in explanation.picture("patches").caption


def test_with_mean_pooling_patches_draws_the_mean_of_the_attention_received():
    explanation = explain(vit(**STEM))
    weights = explanation["encoder.blocks.1.attention.weights"]
    assert torch.allclose(shown_maps(explanation, "patches")[1], weights[1].mean(0).view(GRID), atol=1e-6)
    assert "all patches on average" in explanation.picture("patches").caption


def test_rollout_is_drawn_after_every_layer():
    explanation = explain()
    layers = [explanation[f"encoder.blocks.{layer}.attention.weights"] for layer in range(2)]
    drawn = shown_maps(explanation, "rollout")
    assert torch.allclose(drawn[1], rollout(torch.stack(layers))[-1, 0, 1:].view(GRID))


def test_regions_draws_where_the_model_looked_when_it_wrote_each_token():
    explanation = explain(writer())
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
        ("patches", {"query": 17}, "query: 17 is out of range; the image has positions 0 to 16"),
        ("rollout", {"attention": "cross"}, "attention: 'cross' is not one of encoder"),
        ("distance", {"head": 0}, "head: 0 does not apply to the view distance; it applies to head, row"),
    ],
)
def test_a_selection_outside_the_image_is_an_error(view, selection, line):
    with pytest.raises(SettingsError, match=re.escape(line)):
        explain().picture(view, **selection)


def shown_maps(explanation: Explanation, view: str, **selection) -> list[torch.Tensor]:
    """The numbers behind the maps of a picture."""
    figure = explanation.picture(view, **selection).figure
    images = [image for axes in figure.axes for image in axes.images if image.get_cmap() is HEAT]
    return [torch.from_numpy(np.array(image.get_array())) for image in images]


@pytest.mark.parametrize("make", [vit, writer])
def test_every_view_of_a_model_of_images_is_drawn(make, tmp_path):
    explanation = explain(make())
    for view in views(explanation):
        assert explanation.picture(view).alt
    saved = json.loads(explanation.save(tmp_path / "image.json").read_text())
    assert [token["piece"] for token in saved["sides"]["image"]] == explanation.images["image"].names
    assert saved["images"]["image"]["grid"] == [4, 4]


@pytest.mark.parametrize("settings", [POOLED, STEM])
def test_other_patches_and_positions_are_drawn(settings):
    explanation = explain(vit(**settings))
    assert "rotary" in explanation.picture("grid").caption or settings is STEM
    assert explanation.picture("filters").content("png").startswith(b"\x89PNG")


def test_the_grid_shows_the_cosine_of_position_embeddings():
    model = vit()
    [axes, _] = explain(model).picture("grid").figure.axes
    tiles = torch.from_numpy(np.array(axes.images[0].get_array()))
    table = model.embedding.position.weight.detach()
    expected = torch.nn.functional.cosine_similarity(table[1:, None], table[None, 1:], dim=-1).view(
        4, 4, 4, 4
    )
    # Tiles of 4 x 4 with a line between them.
    assert torch.allclose(tiles[5:9, 10:14], expected[1, 2], atol=1e-5)


def test_filters_are_the_principal_components_of_the_patch_embedding():
    weight = vit().embedding.patches.weight.detach()
    filters, shares = principal_filters(weight, 5)
    rows = weight.flatten(1) - weight.flatten(1).mean(0)
    assert float(shares.sum()) == pytest.approx(1.0)
    for number, one in enumerate(filters):
        variance = float((rows @ one.flatten()).square().sum() / rows.square().sum())
        assert variance == pytest.approx(float(shares[number]), rel=1e-4)


def test_hiding_a_patch_equals_covering_it_with_the_mean_colour():
    model, covered = vit(), model_input().clone()
    covered[:, :, 2:4, 6:8] = 0
    with torch.no_grad():
        expected = model(covered)
        with intervene(model, {"embedding.pixels": HidePatches([(1, 3)])}):
            assert torch.equal(model(model_input()), expected)
    assert not torch.equal(model(model_input()), expected)


def test_a_hidden_patch_can_be_captured():
    model = vit()
    with intervene(model, {"embedding.pixels": HidePatches([(0, 0)])}):
        explanation = explain(model)
    assert not explanation["embedding.pixels"][:, :2, :2].any()
    assert explanation["embedding.pixels"][:, 2:, 2:].any()


@pytest.mark.parametrize(
    ("site", "edit", "line"),
    [
        ("embedding.pixels", HidePatches([(4, 0)]), "there is no patch 4,0; the image has 4 rows of 4"),
        ("embedding.pixels", HidePatches([3]), "are not patches; pass [(row, column), …]"),  # pyright: ignore
        ("embedding.stream", HidePatches([(0, 0)]), "not the pixels of an image"),
        ("embedding.pixels", Swap({0: [1.0]}), "has no vector for each token"),
        ("embedding.position_ids", SetPosition({2: 99}), "position 99 is beyond the model's last, 16"),
    ],
)
def test_an_edit_that_does_not_fit_an_image_is_one_line(site, edit, line):
    model = vit()
    with pytest.raises(SettingsError, match=re.escape(line)), intervene(model, {site: edit}):
        model(model_input())


def test_moving_a_patch_changes_only_its_position():
    model = vit()
    before = explain(model)
    with intervene(model, {"embedding.position_ids": SetPosition({1: 2})}):
        moved = explain(model)
    assert torch.equal(moved["embedding.token_embeddings"], before["embedding.token_embeddings"])
    assert torch.equal(moved["embedding.position_embeddings"][1], before["embedding.position_embeddings"][2])

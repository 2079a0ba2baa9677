"""The page with models that read images: choosing one, attention over it, and hiding patches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.explorer.server import in_background
from clearhead.inspection import HidePatches, intervene
from clearhead.inspection.summaries import rollout
from clearhead.tasks.samples import sample_images

from ..test_classifier import TEXT, review_classifier
from ..test_images import file_of, image_models, model_folder
from .test_access import reach
from .test_compare import largest, wait_for_both
from .test_numbers import POINTED_AT, number
from .test_views import violations

BOTH = ("patches", "looks", "embedding", "projections", "softmax", "mix", "heads", "head")
BOTH += ("feedforward", "residual")
OF_A_CLASSIFIER = (*BOTH, "relevance")
OF_A_CAPTIONER = (*BOTH, "regions", "tokens", "gradient", "readout", "logits", "beam")


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, Path]:
    return sample_images(str(model_folder(tmp_path_factory.mktemp("run"))))


@pytest.fixture(scope="module")
def models(samples) -> dict[str, Any]:
    found = image_models(samples["0-cat"].parents[1])
    found["captions"].name = found["vit"].name
    return found


@pytest.fixture(scope="module")
def address(models) -> Iterator[str]:
    with in_background([*models.items(), ("reviews", review_classifier())]) as address:
        yield address


@pytest.mark.parametrize(("model", "views"), [("vit", OF_A_CLASSIFIER), ("captions", OF_A_CAPTIONER)])
def test_every_view_of_an_image_opens_and_fits_a_phone(phone, model, views):
    page = phone.go(model=model, view=views[0])
    for view in views:
        phone.turn(view)
        assert page.locator("[role=alert]").count() == 0, (view, phone.alert())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
    assert page.locator("nav.views button").count() == len(views)


@pytest.mark.parametrize(
    ("model", "views"),
    [("captions", ("patches", "looks", "regions")), ("vit", ("relevance", "head", "heads", "embedding"))],
)
def test_no_view_of_an_image_has_a_serious_accessibility_violation(opened, model, views):
    page = opened.go(model=model, view="patches")
    for view in views:
        opened.turn(view)
        assert violations(page) == [], view


@pytest.mark.parametrize(("model", "views"), [("vit", OF_A_CLASSIFIER), ("captions", OF_A_CAPTIONER)])
def test_an_image_is_compared_with_and_without_a_hidden_patch(opened, models, samples, model, views):
    side = next(iter(models[model].explain(samples["0-cat"]).images))
    edits = f'[{{"kind":"hide","side":"{side}","patches":[[0,1]]}}]'
    page = opened.go(model=model, view=views[0], image="0-cat", edits=edits, compare="edits")
    for view in views:
        opened.turn(view)
        wait_for_both(opened, view)
        assert page.locator("[role=alert]").count() == 0, (view, opened.alert())
    opened.turn("embedding")
    wait_for_both(opened, "embedding")
    # Only the embedding of the hidden patch differs.
    whole = models[model].explain(samples["0-cat"])
    name = next(one for one in whole.trace if one.endswith("embedding.stream"))
    pixels = next(one for one in whole.trace if one.endswith(".pixels"))
    with intervene(models[model].model, {pixels: HidePatches(((0, 1),))}):
        hidden = models[model].explain(samples["0-cat"])
    assert largest(page) == pytest.approx(float((hidden[name] - whole[name]).abs().max()), abs=6e-5)


def test_a_click_hides_a_patch_and_changes_the_probabilities(opened, models, samples):
    page = opened.go(model="vit", image="1-dog", view="patches")
    model, image = models["vit"], samples["1-dog"]
    assert probabilities(page) == rounded(model.classify(image).probabilities)
    box = page.locator("[data-view=patches] canvas").first.bounding_box()
    # The patch in row 2, column 1 of 4.
    page.mouse.click(box["x"] + box["width"] * 1.5 / 4, box["y"] + box["height"] * 2.5 / 4)
    page.get_by_text("hide patch 2,1").wait_for()
    opened.wait_until_idle()
    with intervene(model.model, {"embedding.pixels": HidePatches([(2, 1)])}):
        hidden = model.classify(image)
    assert probabilities(page) == rounded(hidden.probabilities)
    assert hidden.probabilities != model.classify(image).probabilities
    assert page.locator("#output").inner_text() == hidden.label
    page.get_by_role("button", name="Undo all").click()
    opened.wait_until_idle()
    assert probabilities(page) == rounded(model.classify(image).probabilities)


def test_a_patch_is_hidden_with_the_keyboard_alone(opened, models, samples):
    page = opened.go(model="vit", view="patches", key=1)
    reach(page, "the image in 4 by 4 patches")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_text("hide patch 1,1").wait_for()
    opened.wait_until_idle()
    with intervene(models["vit"].model, {"embedding.pixels": HidePatches([(1, 1)])}):
        assert probabilities(page) == rounded(models["vit"].classify(samples["0-cat"]).probabilities)


def test_a_sample_is_chosen_and_is_in_the_url(opened, models, samples):
    page = opened.go(model="vit", view="patches")
    page.get_by_role("button", name="sample 1-dog").click()
    page.wait_for_selector("button[aria-pressed=true] img[alt='sample 1-dog']")
    opened.wait_until_idle()
    assert "image=1-dog" in page.url
    assert probabilities(page) == rounded(models["vit"].classify(samples["1-dog"]).probabilities)
    page.reload()
    opened.wait_until_idle("patches")
    assert probabilities(page) == rounded(models["vit"].classify(samples["1-dog"]).probabilities)


def test_a_model_without_samples_waits_for_an_image(opened, models):
    page = opened.page
    page.goto(f"{opened.address}#door=inspect&model=stem&view=patches")
    page.get_by_text("Choose an image to start.").wait_for()
    assert page.locator("[role=alert]").count() == 0
    upload = {"name": "photo.png", "mimeType": "image/png", "buffer": file_of(5)}
    page.locator("input[type=file]").set_input_files(upload)
    opened.wait_until_idle("patches")
    assert probabilities(page) == rounded(models["stem"].classify(file_of(5)).probabilities)
    assert page.get_by_text("photo.png").count() > 0


def test_a_file_that_is_no_image_is_one_line_and_the_trace_stays(opened, models, samples):
    page = opened.go(model="vit", view="patches")
    upload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"not an image"}
    page.locator("input[type=file]").set_input_files(upload)
    page.wait_for_selector("[role=alert]")
    assert opened.alert().startswith("notes.txt: not an image, or damaged")
    assert probabilities(page) == rounded(models["vit"].classify(samples["0-cat"]).probabilities)


@pytest.mark.parametrize("model", ["vit", "captions"])
def test_a_map_under_the_pointer_shows_the_weights_of_python(opened, models, samples, model):
    explanation = models[model].explain(samples["0-cat"])
    page = opened.go(model=model, view="looks", attention="encoder", layer=1)
    canvas = page.locator("button.map canvas").nth(1)
    box = canvas.bounding_box()
    path = "encoder.blocks" if model == "vit" else "encoder.encoder.blocks"
    weights = explanation[f"{path}.1.attention.weights"][1]
    before = explanation.images["image"].before
    pointed = None
    for row, column in ((0, 2), (3, 1)):
        x, y = box["x"] + box["width"] * (column + 0.5) / 4, box["y"] + box["height"] * (row + 0.5) / 4
        page.mouse.move(x, y)
        page.wait_for_function(
            "title => document.querySelector('.hint')?.innerText.includes(title)", arg=f"patch {row},{column}"
        )
        value = number(page.locator(".hint .value").inner_text())
        position = before + row * 4 + column
        expected = weights[0, position] if before else weights.mean(0)[position]
        assert value == pytest.approx(float(expected), abs=6e-5)
        pointed = page.locator(".hint code").inner_text()
        assert pointed.startswith(f'explanation["{path}.1.attention.weights"][1')


def test_rollout_and_distances_on_the_page_equal_python(opened, models, samples):
    explanation = models["vit"].explain(samples["0-cat"])
    weights = torch.stack([explanation[f"encoder.blocks.{layer}.attention.weights"] for layer in range(2)])
    page = opened.go(model="vit", view="looks")
    page.locator("figure canvas").last.hover()
    value = number(page.locator(".hint .value").inner_text())
    row, column = page.locator(".hint").inner_text().split("\n")[0].removeprefix("patch ").split(",")
    position = 1 + int(row) * 4 + int(column)
    assert value == pytest.approx(float(rollout(weights)[1, 0, position]), abs=6e-5)
    label = page.locator("svg[aria-label^='mean attention distance']").get_attribute("aria-label")
    assert label.count("layer") == 4


def test_relevance_on_the_page_equals_python(opened, models, samples):
    found = models["vit"].relevance(samples["0-cat"])
    page = opened.go(model="vit", view="relevance", key=7)
    for method, values in found.values.items():
        page.get_by_role("button", name=method, exact=True).click()
        shown = page.locator("#relevance")
        assert number(shown.inner_text()) == pytest.approx(float(values[7]), abs=6e-5), method
    listed = page.locator("[data-view=relevance] li .number").all_inner_texts()
    assert [number(one) for one in listed] == pytest.approx(
        [found.deletion.comprehensiveness(method) for method in found.deletion.without], abs=6e-4
    )


def test_relevance_of_a_text_on_the_page_equals_python(opened):
    model = review_classifier()
    page = opened.go(model="reviews", view="relevance", text=TEXT, key=3)
    found = model.relevance(TEXT)
    values = next(iter(found.values.values()))
    assert number(page.locator("#relevance").inner_text()) == pytest.approx(float(values[3]), abs=6e-5)
    assert probabilities(page) == rounded(model.classify(TEXT).probabilities)


def test_the_grid_of_positions_and_the_filters_are_those_of_python(opened, models):
    model = models["vit"].model
    page = opened.go(model="vit", view="embedding", query=6)
    table = model.embedding.position.weight.detach()
    expected = torch.nn.functional.cosine_similarity(table[6], table[11], dim=-1)
    grid = page.get_by_role("application", name="cosine of this position with that of every patch")
    grid.scroll_into_view_if_needed()
    box = grid.locator("canvas").bounding_box()
    # The pointer crosses row 2 until it names column 2.
    for x in range(int(box["x"]), int(box["x"] + box["width"]), 6):
        page.mouse.move(x, box["y"] + box["height"] * 0.66)
        if page.locator(".hint").count() and "patch 2,2" in page.locator(".hint").inner_text():
            break
    assert number(page.locator(".hint .value").inner_text()) == pytest.approx(float(expected), abs=6e-5)
    assert page.get_by_role("img", name="filter").count() == 12
    assert page.get_by_text("First 12 principal components of the patch embedding").count() == 1


def test_one_head_shows_where_a_patch_looks(opened, models, samples):
    explanation = models["vit"].explain(samples["0-cat"])
    page = opened.go(model="vit", view="head", layer=1, head=1, query=6, key=4)
    shown = page.locator("[data-view=head] .caption b.number").first
    weights = explanation["encoder.blocks.1.attention.weights"][1]
    assert number(shown.inner_text()) == pytest.approx(float(weights[6, 4]), abs=6e-5)
    queries = page.get_by_role("application", name="queries").bounding_box()
    page.mouse.move(queries["x"] + queries["width"] * 0.9, queries["y"] + queries["height"] * 0.9)
    page.wait_for_function(
        "value => document.querySelector('[data-view=head] .caption b.number').innerText === value",
        arg=f"{float(weights[16, 4]):.4f}",
    )


def test_the_region_of_each_written_word_is_that_of_python(opened, models, samples):
    explanation = models["captions"].explain(samples["0-cat"])
    weights = explanation["decoder.blocks.1.cross_attention.weights"]
    page = opened.go(model="captions", view="regions", layer=1)
    written = [token for token in explanation.target if token.next is not None]
    maps = page.locator("button.map")
    assert maps.count() == len(written)
    words = explanation.pieces([token.next or 0 for token in written])
    assert [one.strip().lstrip("▁") for one in maps.all_inner_texts()] == [one.lstrip("▁") for one in words]
    box = maps.nth(1).locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 2.5 / 4, box["y"] + box["height"] * 0.5 / 4)
    name, value = page.wait_for_function(POINTED_AT, arg=None).json_value()
    assert number(value) == pytest.approx(float(weights[:, 1, 2].mean()), abs=6e-5)
    assert name == 'mean over heads of explanation["decoder.blocks.1.cross_attention.weights"]'


def test_a_file_of_an_image_opens_without_a_server(browser, models, samples, tmp_path, watched):
    for name, views in (("vit", ("patches", "looks", "head")), ("captions", ("patches", "regions"))):
        explanation = models[name].explain(samples["0-cat"])
        path = explanation.save(tmp_path / f"{name}.html")
        context = browser.new_context(offline=True)
        page = context.new_page()
        opened = watched(page, path.as_uri())
        opened.go(view=views[0])
        for view in views:
            opened.turn(view)
            assert page.locator("[role=alert]").count() == 0, (view, opened.alert())
        assert page.locator("#output").inner_text() == explanation.output
        context.close()
        assert opened.problems == []


def probabilities(page) -> dict[str, str]:
    """The class probabilities as the page shows them."""
    rows = page.locator("ol.classes li")
    pairs = zip(
        rows.locator(".label").all_inner_texts(), rows.locator(".number").all_inner_texts(), strict=True
    )
    return dict(pairs)


def rounded(values: dict[str, float]) -> dict[str, str]:
    """Probabilities in the page's format."""

    def percent(share: float) -> str:
        if share >= 99.95:
            return "100 %"
        return f"{share:.1f} %" if share >= 10 else f"{share:.2f} %"

    return {label: percent(value * 100) for label, value in values.items()}

"""The overview: the architecture as a drawing, and one token on its way through it."""

import json
import math
import re

import pytest
from playwright.sync_api import expect

from clearhead.explorer.server import in_background

from ..test_images import image_models, model_folder
from .test_access import reach
from .test_numbers import number
from .test_races import submit
from .test_views import AXE

TEXT = "I closed the windows."
SOURCE, TARGET, ENCODER, DECODER = 3, 2, 2, 1
ARROWS = "() => [...document.querySelectorAll('[data-arrow]')].map(one => one.dataset.arrow)"
MOVING = "() => document.querySelector('.mark').getAnimations().length"
# The distance from the middle of the token's box to where the token is.
ASTRAY = """() => {
  const svg = document.querySelector('nav.map svg');
  const { e, f } = new DOMMatrix(getComputedStyle(document.querySelector('.mark')).transform);
  const box = document.querySelector('.part.at :is(rect, circle):not(.reach)').getBoundingClientRect();
  const { left, top } = svg.getBoundingClientRect();
  return Math.hypot(left + e - box.x - box.width / 2, top + f - box.y - box.height / 2);
}"""


def facts(page) -> dict[str, float]:
    found = page.locator("[data-fact]").evaluate_all(
        "all => all.map(one => [one.dataset.fact, one.innerText])"
    )
    return {key: number(text) for key, text in found}


def at_step(opened, step: int) -> tuple[str, str, dict[str, float]]:
    """The kind of a step, its box and its numbers."""
    page = opened.page
    page.wait_for_selector(f"[data-step='{step + 1}']")
    shown = page.locator("[data-step]")
    node = page.locator(".part.at").get_attribute("data-node")
    return shown.get_attribute("data-kind"), node, facts(page)


def all_steps(opened) -> list[tuple[str, str, dict[str, float]]]:
    """Every step, taken with the button."""
    page, found = opened.page, []
    forward = page.get_by_label("Forward one step")
    while forward.is_enabled():
        forward.click()
        found.append(at_step(opened, len(found)))
        assert page.locator("[role=alert]").count() == 0, found[-1]
    return found


def steps_by_box(opened) -> dict[tuple[str, str], dict[str, float]]:
    return {(node, kind): numbers for kind, node, numbers in all_steps(opened)}


def close(found: float, wanted) -> bool:
    return found == pytest.approx(float(wanted), rel=1e-3, abs=1e-3)


def test_the_drawing_has_the_parts_and_sizes_of_a_translator(opened, box):
    page = opened.go(view="tokens", text=TEXT)
    drawing = page.locator("nav.map svg")
    model, attention = box.model, box.model.decoder.blocks[0].cross_attention
    heads = f"{attention.project.sizes[0] // attention.head_size} heads of {attention.head_size}"
    width, vocabulary = model.readout_weight.shape[1], model.readout_weight.shape[0]
    for name in (
        f"self-attention, {heads}",
        f"cross-attention, {heads}",
        f"feed-forward, {model.decoder.blocks[0].feedforward.inner.out_features:,} wide",
        f"embedding, {width} wide",
        f"readout, {width} → {vocabulary:,}",
        f"softmax, over {vocabulary:,}",
    ):
        expect(drawing.get_by_role("button", name=name, exact=True).first, name).to_be_attached()
    labels = drawing.locator(".stack-name").all_text_contents()
    assert [one.split(",")[0] for one in labels] == [
        f"encoder × {len(model.encoder.blocks)}",
        f"decoder × {len(model.decoder.blocks)}",
    ]
    arrows = page.evaluate(ARROWS)
    assert sum(one.startswith("residual") for one in arrows) == 5
    assert [one for one in arrows if one.startswith("cross")] == [
        "cross source.encoder.states target.decoder.cross_attention"
    ]
    assert sum(one.startswith("position") for one in arrows) == 2


@pytest.mark.parametrize(
    ("model", "text", "residual", "cross", "boxes"),
    [
        ("writer", "Once", 2, 0, {"text.decoder.attention", "text.readout", "text.output"}),
        ("lstm", "the dog", 0, 1, {"source.encoder", "target.cross", "target.decoder", "target.readout"}),
        ("fixed", "the dog", 0, 1, {"source.encoder", "target.decoder", "target.softmax"}),
        ("trigrams", "the dog", 0, 0, {"text.ngrams", "text.softmax", "text.output"}),
        ("vit", "", 2, 0, {"image.embedding", "image.encoder.attention", "image.class"}),
        ("captions", "", 5, 1, {"image.encoder.encoder.attention", "target.decoder.cross_attention"}),
    ],
)
def test_every_family_has_its_drawing_and_its_route(
    browser, address, watched, tmp_path, model, text, residual, cross, boxes
):
    def check(address: str) -> None:
        opened = watched(browser.new_page(), address)
        page = opened.go(view="patches" if not text else "tokens", model=model, text=text)
        arrows = page.evaluate(ARROWS)
        assert sum(one.startswith("residual") for one in arrows) == residual
        assert sum(one.startswith("cross") for one in arrows) == cross
        drawn = page.locator("nav.map [data-node]")
        assert boxes <= {one.get_attribute("data-node") for one in drawn.all()}
        steps = all_steps(opened)
        # Every box is visited, and says a number or more unless it has none.
        beside = page.locator(".part.position").count()
        assert len({node for _, node, _ in steps}) == drawn.count() - beside
        assert sum(bool(numbers) for _, _, numbers in steps) >= len(steps) / 2
        page.close()
        assert opened.problems == []

    if text:
        check(address)
    else:
        found = image_models(model_folder(tmp_path))
        found["captions"].name = found["vit"].name
        with in_background([(model, found[model])]) as own:
            check(own)


def test_every_number_of_the_route_equals_python(opened, box):
    explanation = box.explain(TEXT)
    page = opened.go(view="tokens", text=TEXT, key=SOURCE, position=TARGET)
    page.get_by_label("layer of the encoder").select_option(str(ENCODER))
    page.get_by_label("layer of the decoder").select_option(str(DECODER))
    found = steps_by_box(opened)

    def norm(name: str, position: int) -> float:
        return float(explanation[name][position].norm())

    assert found["source.tokens", "tokens"]["id"] == explanation.source[SOURCE].id
    assert found["target.tokens", "tokens"]["id"] == explanation.target[TARGET].id
    for side, at in (("source", SOURCE), ("target", TARGET)):
        assert close(
            found[f"{side}.embedding", "embedding"]["norm"], norm(f"{side}_embedding.token_embeddings", at)
        )
        assert close(found[f"{side}.sum", "add"]["norm"], norm(f"{side}_embedding.stream", at))
        assert close(
            found[f"{side}.sum", "add"]["position"], norm(f"{side}_embedding.position_embeddings", at)
        )
    for side, stack, layer, at, last in (
        ("source", "encoder", ENCODER, SOURCE, len(box.model.encoder.blocks) - 1),
        ("target", "decoder", DECODER, TARGET, len(box.model.decoder.blocks) - 1),
    ):
        block, name = f"{stack}.blocks.{layer}", f"{side}.{stack}"
        stream = explanation[f"{stack}.blocks.{layer - 1}.feedforward_residual.stream"]
        for sublayer, residual in (
            ("attention", "attention_residual"),
            ("cross_attention", "cross_residual"),
            ("feedforward", "feedforward_residual"),
        ):
            if sublayer == "cross_attention" and side == "source":
                continue
            added = explanation[f"{block}.{sublayer}.added"][at]
            after = explanation[f"{block}.{residual}.stream"]
            assert close(found[f"{name}.{sublayer}.norm", "norm"]["norm"], stream[at].norm())
            kind = "feedforward" if sublayer == "feedforward" else "attention"
            here = found[f"{name}.{sublayer}", kind]
            assert close(here["added"], added.norm())
            if kind == "attention":
                weights = explanation[f"{block}.{sublayer}.weights"][:, at]
                assert close(here["alpha"], weights.max())
            share = 100 * added.norm() / (added.norm() + stream[at].norm())
            sums = found[f"{name}.{sublayer}.add", "add"]
            assert sums["share"] == pytest.approx(float(share), abs=0.06)
            assert close(sums["norm"], after[at].norm())
            stream = after
        first, end = f"{name}.attention.norm", f"{name}.feedforward.add"
        before = explanation[f"{stack}.blocks.{layer - 1}.feedforward_residual.stream"][at]
        assert close(found[first, "earlier"]["norm"], before.norm())
        assert close(
            found[end, "later"]["norm"], norm(f"{stack}.blocks.{last}.feedforward_residual.stream", at)
        )
        assert close(found[f"{name}.states", "norm"]["norm"], norm(f"{stack}.states", at))
    cross = explanation[f"decoder.blocks.{DECODER}.cross_attention.weights"][:, TARGET]
    assert close(found["target.decoder.cross_attention", "handed"]["alpha"], cross[:, SOURCE].max())
    head = int(cross.max(-1).values.argmax())
    if int(cross[head].argmax()) != SOURCE:
        followed = found["target.decoder.cross_attention", "attention"]["alpha-followed"]
        assert close(followed, cross[head, SOURCE])
    logits = explanation["logits"][TARGET]
    assert close(found["target.readout", "readout"]["logit"], logits.max())
    softmax = logits.softmax(-1)
    assert close(found["target.softmax", "softmax"]["probability"], softmax.max())
    entropy = -(softmax * softmax.log()).nansum() / math.log(2)
    assert found["target.softmax", "softmax"]["entropy"] == pytest.approx(float(entropy), abs=0.01)
    assert close(found["target.output", "output"]["probability"], softmax[explanation.target[TARGET].next])


def test_a_sum_before_its_norm_equals_python(browser, watched):
    # The stream of a post-norm model is recorded after the norm.
    from .conftest import long_translator

    model = long_translator()
    with in_background([("post", model)]) as address:
        opened = watched(browser.new_page(), address)
        opened.go(view="tokens", text="word1 word2", target="word3", key=1)
        found = steps_by_box(opened)
        opened.page.close()
    explanation = model.explain("word1 word2", target="word3")
    before = explanation["source_embedding.stream"][1]
    added = explanation["encoder.blocks.0.attention.added"][1]
    after = explanation["encoder.blocks.0.attention_residual.stream"][1]
    assert close(found["source.encoder.attention.add", "add"]["norm"], (before + added).norm())
    assert close(found["source.encoder.attention.norm", "norm"]["norm"], after.norm())


def test_buttons_and_arrow_keys_step_and_play_goes_on(opened):
    page = opened.go(view="tokens", text=TEXT)
    page.get_by_label("speed").select_option("4 ×")
    reach(page, "▶ Play")
    page.keyboard.press("ArrowRight")
    at_step(opened, 0)
    page.keyboard.press("ArrowRight")
    at_step(opened, 1)
    page.keyboard.press("ArrowLeft")
    at_step(opened, 0)
    assert "step=0" in page.url
    page.keyboard.press("Enter")
    at_step(opened, 2)
    page.get_by_role("button", name="Pause").click()
    resting = page.locator("[data-step]").get_attribute("data-step")
    page.wait_for_timeout(900)
    assert page.locator("[data-step]").get_attribute("data-step") == resting
    page.get_by_label("Back one step").click()
    at_step(opened, int(resting) - 2)
    page.get_by_label("Back to the start").click()
    page.wait_for_selector("[data-step]", state="detached")
    assert "step=" not in page.url


def test_a_link_opens_a_step_and_the_route_ends_at_the_last_step(opened):
    page = opened.go(view="tokens", text=TEXT, step=999)
    last = int(page.locator("[data-step]").get_attribute("data-step"))
    assert page.get_by_label("Forward one step").is_disabled()
    page = opened.go(view="tokens", text=TEXT, step=last - 2)
    page.get_by_label("speed").select_option("4 ×")
    page.get_by_role("button", name="Play").click()
    at_step(opened, last - 1)
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Play").click()
    at_step(opened, 0)


def test_the_token_moves_along_the_arrows_unless_the_reader_wants_no_motion(
    opened, browser, address, watched
):
    page = opened.go(view="tokens", text=TEXT, step=3)
    page.get_by_label("Forward one step").click()
    page.wait_for_function(f"() => ({MOVING})() > 0")
    page.wait_for_function(f"() => ({MOVING})() === 0")
    assert page.evaluate(ASTRAY) < 2
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    still = watched(context.new_page(), address)
    page = still.go(view="tokens", text=TEXT, step=3)
    page.get_by_label("speed").select_option("4 ×")
    page.get_by_role("button", name="Play").click()
    for step in (4, 5):
        at_step(still, step)
        assert (
            page.evaluate("() => document.querySelector('nav.map').getAnimations({subtree: true}).length")
            == 0
        )
        assert page.evaluate(ASTRAY) < 2
    context.close()
    assert still.problems == []


def test_another_model_during_the_route_starts_anew(opened):
    page = opened.go(view="tokens", text=TEXT, step=6)
    page.get_by_label("speed").select_option("4 ×")
    page.get_by_role("button", name="Play").click()
    at_step(opened, 8)
    page.locator("header select").select_option("writer")
    page.wait_for_function("() => document.querySelector('[data-node=\"text.readout\"]')")
    opened.wait_until_idle()
    assert page.locator("[data-step]").count() == 0
    assert page.get_by_role("button", name="Pause").count() == 0
    page.wait_for_timeout(900)
    assert page.locator("[data-step]").count() == 0
    assert page.locator("[role=alert]").count() == 0


def test_a_window_resized_during_the_route_keeps_the_token_in_its_box(opened):
    page = opened.go(view="tokens", text=TEXT, step=4)
    page.get_by_label("speed").select_option("4 ×")
    page.get_by_role("button", name="Play").click()
    for step, width in ((5, 390), (7, 853), (9, 1280)):
        at_step(opened, step)
        page.set_viewport_size({"width": width, "height": 800})
        at_step(opened, step + 1)
        page.wait_for_function(f"() => ({MOVING})() === 0")
        assert page.evaluate(ASTRAY) < 2, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.get_by_role("button", name="Pause")).to_have_count(1)


def test_new_text_during_the_route_goes_on(opened, box):
    page = opened.go(view="tokens", text="The dog runs through the big garden.", key=7, step=0)
    page.get_by_label("speed").select_option("4 ×")
    page.get_by_role("button", name="Play").click()
    submit(page, "The cat.")
    page.wait_for_function("() => location.hash.includes('cat')")
    opened.wait_until_idle()
    at_step(opened, 4)
    page.get_by_role("button", name="Pause").click()
    # The new text is shorter, so its last token is followed.
    page.get_by_label("Back to the start").click()
    page.get_by_label("Forward one step").click()
    _, _, numbers = at_step(opened, 0)
    assert numbers["id"] == box.explain("The cat.").source[-1].id


def test_a_box_opens_its_view_at_the_followed_token(opened):
    page = opened.go(view="tokens", text=TEXT)
    page.get_by_label("follow a token of the source").select_option(str(SOURCE))
    page.get_by_label("layer of the encoder").select_option(str(ENCODER))
    page.locator("[data-node='source.encoder.attention']").click()
    opened.wait_until_idle("head")
    for part in ("attention=encoder", f"layer={ENCODER}", f"query={SOURCE}"):
        assert part in page.url
    page.locator("[data-node='target.decoder.cross_attention']").focus()
    page.keyboard.press("Enter")
    opened.wait_until_idle()
    assert (
        page.locator("[data-node='target.decoder.cross_attention']").get_attribute("aria-current") == "true"
    )
    page.locator("[data-node='target.readout']").click()
    opened.wait_until_idle("readout")
    page.locator("[data-node='source.encoder.feedforward.add']").click()
    opened.wait_until_idle("residual")


def test_where_the_drawing_would_be_tall_it_starts_closed(browser, address, watched):
    for width, height, is_open in (
        (1280, 720, True),
        (1280, 500, False),
        (1100, 900, False),
        (390, 844, False),
    ):
        context = browser.new_context(viewport={"width": width, "height": height})
        page = watched(context.new_page(), address).go(view="tokens", text=TEXT)
        assert page.locator("nav.map details").evaluate("one => one.open") == is_open, width
        context.close()


def test_a_stack_of_48_layers_is_drawn_once_and_any_layer_can_be_chosen(opened):
    page = opened.go(view="tokens", model="deep", text="Once upon")
    assert page.locator("nav.map .stack-name").text_content() == "decoder × 48, layer 0"
    page.get_by_label("layer of the decoder").select_option("47")
    assert page.locator("nav.map .stack-name").text_content() == "decoder × 48, layer 47"
    found = [kind for kind, _, _ in all_steps(opened)]
    assert "earlier" in found
    assert "later" not in found


def test_the_drawing_zooms_and_stands_upright(opened):
    page = opened.go(view="tokens", text=TEXT, step=24)
    drawing = page.locator("nav.map svg")
    wide = drawing.bounding_box()
    page.get_by_role("button", name="Zoom in").click()
    assert drawing.bounding_box()["width"] == pytest.approx(1.5 * wide["width"], rel=0.01)
    # The box of the step stays in sight.
    page.wait_for_function(
        """() => { const room = document.querySelector('nav.map .room').getBoundingClientRect();
        const box = document.querySelector('.part.at').getBoundingClientRect();
        return box.left >= room.left && box.right <= room.right; }"""
    )
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="Upright").click()
    tall = drawing.bounding_box()
    assert tall["height"] > tall["width"]
    # From bottom to top, the encoder to the left of the decoder.
    box_of = {
        name: page.locator(f"[data-node='{name}']").bounding_box()
        for name in ("source.tokens", "target.tokens", "target.softmax")
    }
    assert box_of["target.softmax"]["y"] < box_of["target.tokens"]["y"]
    assert box_of["source.tokens"]["x"] < box_of["target.tokens"]["x"]
    expect(page.locator("nav.map .trail [role=img]").nth(3)).to_be_attached()


@pytest.mark.parametrize("door", ["learn", "inspect"])
def test_in_presenter_mode_it_is_one_line_until_its_token_moves_and_then_fills_the_page(opened, door):
    page = opened.go(door, text=TEXT, present=1)
    shown, drawing = page.locator("main [data-view]"), page.locator("nav.map svg")
    assert not drawing.is_visible()
    assert page.locator("nav.map").bounding_box()["height"] < 50
    page.get_by_role("button", name="Play").click()
    at_step(opened, 0)
    page.get_by_role("button", name="Pause").click()
    assert drawing.bounding_box()["width"] > 1100
    assert not shown.is_visible()
    assert page.locator("[data-step]").evaluate("one => parseFloat(getComputedStyle(one).fontSize)") >= 18
    # The focus is in the overview, so arrow keys move its token and not the lesson.
    url = page.url
    page.keyboard.press("ArrowRight")
    at_step(opened, 1)
    assert page.url == url.replace("step=0", "step=1")
    assert page.locator(".presenter").is_visible()
    page.get_by_label("Back to the start").click()
    shown.wait_for()
    page.get_by_label("Forward one step").click()
    at_step(opened, 0)
    page.locator("[data-node='target.readout']").click()
    opened.wait_until_idle("readout")


def test_a_muted_head_is_not_the_strongest(opened, box):
    weights = box.explain(TEXT)["encoder.blocks.0.attention.weights"][:, SOURCE].max(-1).values
    strongest = int(weights.argmax())
    mute = [{"kind": "mute", "attention": "encoder.blocks.0.attention", "heads": [strongest]}]
    page = opened.go(view="tokens", text=TEXT, key=SOURCE, step=4, edits=json.dumps(mute))
    kind, node, numbers = at_step(opened, 4)
    assert (kind, node) == ("attention", "source.encoder.attention")
    assert close(numbers["alpha"], weights.topk(2).values[1])
    mute[0]["heads"] = list(range(len(weights)))
    page = opened.go(view="tokens", text=TEXT, key=SOURCE, step=4, edits=json.dumps(mute))
    assert "All heads are muted" in page.locator("[data-step]").inner_text()


def test_upright_it_says_what_each_head_attends_to_most(opened, box):
    page = opened.go(view="tokens", text=TEXT, position=TARGET, step=18)
    for step in range(18, 29):
        if at_step(opened, step)[1] == "target.decoder.cross_attention":
            break
        page.get_by_label("Forward one step").click()
    page.get_by_role("button", name="Upright").click()
    page.wait_for_selector("nav.map .heads [data-amount]")
    shown = [number(one) for one in page.locator("nav.map .heads [data-amount]").all_inner_texts()]
    weights = box.explain(TEXT)["decoder.blocks.0.cross_attention.weights"][:, TARGET]
    assert shown == pytest.approx(weights.max(-1).values.tolist(), abs=1e-3)


def test_the_route_fits_a_phone_and_150_percent_and_has_no_accessibility_violation(browser, address, watched):
    for width, height in ((1280, 720), (390, 844), (853, 480)):
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        opened = watched(context.new_page(), address)
        page = opened.go(view="tokens", text=TEXT, step=4)
        page.evaluate(AXE)
        for step in (4, 12, 28):
            page = opened.go(view="tokens", text=TEXT, step=step)
            page.wait_for_selector("[data-step]")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.evaluate(AXE)
            found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
            assert [(one["id"], one["nodes"][0]["target"]) for one in found] == [], (width, step)
        context.close()
        assert opened.problems == []


def test_a_file_without_a_server_has_the_whole_route(browser, box, saved, watched):
    context = browser.new_context(offline=True)
    opened = watched(context.new_page(), saved(TEXT).as_uri())
    opened.go(view="tokens", key=SOURCE, position=TARGET)
    found = steps_by_box(opened)
    explanation = box.explain(TEXT)
    weights = explanation["decoder.blocks.0.cross_attention.weights"][:, TARGET]
    assert close(found["target.decoder.cross_attention", "attention"]["alpha"], weights.max())
    probability = explanation["logits"][TARGET].softmax(-1).max()
    assert close(found["target.softmax", "softmax"]["probability"], probability)
    opened.page.locator("[data-node='source.encoder.feedforward']").click()
    opened.wait_until_idle("feedforward")
    opened.page.locator("[data-node='target.output']").click()
    opened.wait_until_idle("beam")
    context.close()
    assert opened.problems == []
    assert [url for url in opened.requested if not re.match("file:|data:|about:", url)] == []

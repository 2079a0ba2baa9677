"""What a reader relies on: numbers that mean what they say, errors in sight, type that can be read."""

import json
import math

import pytest

from clearhead.explorer.lessons import lessons_of

from .test_views import CASES

TEXT = "The dog runs through the big garden."
# Elements with text of their own, and the size of their type.
SMALL_TYPE = """() => [...document.querySelectorAll('body *')].filter(one =>
    [...one.childNodes].some(child => child.nodeType === 3 && child.textContent.trim()) &&
    one.getClientRects().length && !one.closest('.hidden, option') &&
    parseFloat(getComputedStyle(one).fontSize) < 12
).map(one => `${one.tagName}.${one.getAttribute('class')}: ${one.textContent.trim().slice(0, 30)}`)"""
MUTE = json.dumps([{"kind": "mute", "attention": "decoder.blocks.1.cross_attention", "heads": [1]}])


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def slide(page, name: str, value: float) -> None:
    page.get_by_label(name).evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', {bubbles: true})) }", value
    )


def test_the_loss_does_not_depend_on_the_temperature_and_no_cut_is_said_where_none_is_set(opened, box):
    page = opened.go(view="logits", text=TEXT, position=2)
    explanation = box.explain(TEXT)
    loss = -explanation.target[2].log_prob
    for temperature in (1, 0.1, 2):
        slide(page, "temperature", temperature)
        opened.wait_until_idle()
        assert number(page.locator("#loss").inner_text()) == pytest.approx(loss, abs=1e-3)
        assert number(page.locator("#next-probability").inner_text()) == pytest.approx(
            math.exp(-loss), abs=1e-3
        )
        assert page.locator("#cut").count() == 0
        assert page.locator("[data-view=logits] .cut").count() == 0
    slide(page, "top-k", 1)
    page.wait_for_selector("#cut")
    assert "keep 1 token with" in page.locator("#cut").inner_text()


def test_sliders_are_in_the_url(opened):
    page = opened.go(view="logits", text=TEXT, position=2)
    slide(page, "temperature", 0.5)
    slide(page, "top-p", 0.9)
    page.wait_for_function(
        "() => location.hash.includes('show_temperature=0.5') && location.hash.includes('show_top_p=0.9')"
    )
    page.reload()
    opened.wait_until_idle("logits")
    assert page.get_by_label("temperature").input_value() == "0.5"
    page = opened.go(view="generate", model="writer", text="Once", temperature=0.7, top_k=5)
    assert page.get_by_label("temperature").input_value() == "0.7"
    assert page.get_by_label("top-k").input_value() == "5"


def test_a_language_model_with_no_tokens_to_generate_says_so(opened):
    page = opened.go(view="tokens", model="writer", text="Once upon")
    assert "0 tokens requested, so nothing is generated" in page.locator("output").inner_text()


def test_an_output_that_was_cut_off_says_so(opened, box):
    text = "Donaudampfschifffahrtsgesellschaft " * 8
    explanation = box.explain(text.strip())
    assert not explanation.found.complete
    page = opened.go(view="tokens", text=text.strip())
    assert f"cut off after {len(explanation.target) - 1} tokens" in page.locator("output").inner_text()
    page = opened.go(view="tokens", text=TEXT)
    assert "cut off" not in page.locator("output").inner_text()


@pytest.mark.parametrize("view", ["head", "softmax", "projections"])
def test_a_muted_head_looks_muted_in_the_views_of_one_head(opened, view):
    selection = {"view": view, "text": TEXT, "attention": "cross", "layer": 1, "edits": MUTE}
    page = opened.go(**selection, head=1)
    assert page.locator(f"[data-view={view}][data-muted]").count() == 1
    assert "Head 1 of layer 1 is muted" in page.locator("[role=note]").inner_text()
    page.locator(f"[data-view={view}]").get_by_role("button", name="2", exact=True).last.click()
    page.wait_for_selector(f"[data-view={view}]:not([data-muted])")
    assert page.locator("[role=note]").count() == 0
    assert page.locator(f"[data-view={view}] .segmented button.muted").inner_text() == "1"


def test_a_muted_head_looks_muted_among_all_heads_and_in_cross_attention(opened):
    page = opened.go(view="heads", text=TEXT, attention="cross", edits=MUTE)
    assert page.locator(".head.muted").count() == 1
    assert "muted" in page.locator(".head.muted .tag").inner_text()
    page = opened.go(view="cross", text=TEXT, attention="cross", layer=1, head=1, edits=MUTE)
    assert page.locator("[data-curves] path.strong[stroke-dasharray]").count() > 0
    page.get_by_role("button", name="heads in colours").click()
    assert "head 1 (muted)" in page.locator("#colours").inner_text()
    keep = json.dumps([{"kind": "keep", "attention": "decoder.blocks.1.cross_attention", "heads": [0]}])
    page = opened.go(view="heads", text=TEXT, attention="cross", edits=keep)
    assert page.locator(".head.muted").count() == 3


def test_errors_appear_where_the_reader_looks(opened):
    page = opened.go(view="tokens", text="Hello.")
    page.fill("#text", "word " * 400)
    page.press("#text", "Enter")
    alert = page.locator("section[aria-label='Text and output'] [role=alert]")
    alert.wait_for()
    assert alert.inner_text() == "400 tokens, but the model takes at most 254; shorten it"
    page = opened.go(view="head", text="Hello.", attention="encoder")
    page.get_by_text("A token or its position").click()
    page.get_by_label("token", exact=True).fill("notatokenofthemodel")
    page.get_by_role("button", name="Swap the embedding").click()
    alert = page.locator("aside [role=alert]")
    alert.wait_for()
    assert "is not one token of the vocabulary" in alert.inner_text()
    assert not alert.inner_text().startswith("interventions")
    assert page.locator("[role=alert]").count() == 1


def test_an_error_about_the_page_stays_in_sight(opened):
    page = opened.go(view="softmax", text=TEXT)
    page.evaluate("scrollTo(0, 900)")
    page.route("**/api/trace/*/**", lambda route: route.abort())
    page.locator("[data-view=softmax] .segmented button").nth(4).click()
    page.wait_for_selector("[role=alert]")
    assert page.locator("[role=alert]").evaluate("one => one.getBoundingClientRect().top >= 0")
    assert page.locator("[role=alert]").evaluate("one => one.getBoundingClientRect().bottom <= innerHeight")


def test_stale_output_is_grey_while_new_text_is_unanswered(opened):
    page = opened.go(view="tokens", text="Hello.")
    assert page.locator("output.stale").count() == 0
    page.fill("#text", "Good morning.")
    assert page.locator("output.stale").count() == 1
    page.press("#text", "Enter")
    page.wait_for_selector("output:not(.stale)")


def test_empty_text_is_refused_and_not_replaced(opened):
    page = opened.go(view="tokens", text="Hello.")
    before = page.locator("#output").inner_text()
    page.fill("#text", "  ")
    page.press("#text", "Enter")
    page.wait_for_selector("[role=alert]")
    assert opened.alert() == "There is no text. Type some and try again."
    assert page.locator("#text").input_value() == "  "
    assert page.locator("#output").inner_text() == before


def test_undo_takes_back_one_step(opened):
    page = opened.go(view="head", text=TEXT, attention="cross", layer=0)

    def mute(head: int) -> None:
        page.get_by_role("button", name=f"mute head {head}", exact=True).click()
        page.wait_for_selector(f"button[aria-label='mute head {head}'][aria-pressed=true]:enabled")

    def muted() -> int:
        return page.locator("button[aria-label^='mute head'][aria-pressed=true]").count()

    mute(0)
    mute(1)
    assert muted() == 2
    undo = page.get_by_role("button", name="Undo", exact=True)
    undo.click()
    page.wait_for_selector("button[aria-label='mute head 1'][aria-pressed=false]:enabled")
    assert muted() == 1
    undo.click()
    page.wait_for_selector("button[aria-label='mute head 0'][aria-pressed=false]:enabled")
    assert muted() == 0
    assert undo.count() == 0
    # Without a history, as in a link, heads are taken back one by one.
    two = json.dumps([{"kind": "mute", "attention": "decoder.blocks.0.cross_attention", "heads": [0, 1]}])
    page = opened.go(view="head", text=TEXT, attention="cross", layer=0, edits=two)
    page.get_by_role("button", name="Undo", exact=True).click()
    page.wait_for_selector("button[aria-label='mute head 1'][aria-pressed=false]:enabled")
    assert muted() == 1


def test_beam_columns_show_the_scores_they_are_sorted_by(opened):
    page = opened.go(view="beam", text="I closed the windows.")
    page.get_by_label("show dropped branches").uncheck()
    columns: dict[str, list[float]] = {}
    for node in page.locator("g.node").all():
        x = node.locator("rect").get_attribute("x")
        columns.setdefault(x, []).append(number(node.locator("text.p").text_content()))
    assert len(columns) > 3
    assert all(scores == sorted(scores, reverse=True) for scores in columns.values())


def test_unknown_characters_are_marked(opened):
    page = opened.go(view="tokens", model="long", text="word1 elephant word2")
    unknown = page.locator("[data-view=tokens] .token.unknown")
    assert unknown.first.inner_text().startswith("⚠")
    assert "1 token not in the vocabulary" in page.locator("output").inner_text()
    page = opened.go(view="tokens", text="Hello.")
    assert page.locator("[data-view=tokens] .token.unknown").count() == 0


@pytest.mark.parametrize("model", ["en-de", "writer", "lstm", "trigrams"])
def test_no_type_is_smaller_than_12_pixels(opened, model):
    selection, views = CASES[model]
    page = opened.go(model=model, view=views[0], **selection)
    for view in views:
        opened.turn(view)
        assert page.evaluate(SMALL_TYPE) == [], view


def test_no_type_of_a_lesson_is_smaller_than_12_pixels(opened, box):
    page = opened.go("learn")
    for step in range(0, len(lessons_of(box, "en-de")), 4):
        page.locator("nav.path button").nth(step).click()
        opened.wait_until_idle()
        assert page.evaluate(SMALL_TYPE) == [], step


def test_plural_forms_are_right(opened):
    page = opened.go(view="tokens", model="writer", text="O")
    text = page.locator("body").inner_text()
    assert "1 token read" in text
    assert "1 tokens" not in text
    page = opened.go(view="heads", model="deep", text="Once")
    assert "48 layers × 1 head" in page.locator("[data-view=heads] h2").inner_text()
    assert "1 heads" not in page.locator("body").inner_text()

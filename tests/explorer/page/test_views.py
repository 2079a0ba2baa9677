"""Every view, for both kinds of model and short and long texts: it opens, fits and is accessible."""

import time
from pathlib import Path

import axe_playwright_python
import pytest

from clearhead.explorer.server import in_background

from ..test_own_family import SorterInUse
from ..test_without_attention import BigramsInUse

TEXT = "The dog runs through the big garden."
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
LONG = " ".join(f"word{number % 100}" for number in range(511))
BOTH = ("tokens", "embedding", "projections", "softmax", "mix", "heads", "head", "feedforward", "residual")
BOTH += ("readout", "logits", "generate")
OF_A_TRANSLATOR = (*BOTH, "cross", "gradient", "beam", "vectors")
WITHOUT_STACKS = ("tokens", "embedding", "gates", "gradient", "logits", "beam", "generate")
CASES = {
    "en-de": ({"text": TEXT}, OF_A_TRANSLATOR),
    "writer": ({"text": "Once upon a time", "tokens": 3}, BOTH),
    # One head, and 48 layers.
    "deep": ({"text": "Once upon"}, BOTH),
    # A given translation has no beam tree.
    "long": ({"text": LONG, "target": LONG}, (*BOTH, "cross")),
    "lstm": ({"text": "the dog runs"}, (*WITHOUT_STACKS, "softmax", "heads", "head", "cross")),
    "fixed": ({"text": "the dog runs"}, WITHOUT_STACKS),
    "trigrams": ({"text": "the dog sleeps"}, ("tokens", "logits", "backoff", "generate")),
}
# Far above the design's budgets, because test machines are busy; benchmarks/explorer.py measures those.
FIRST_SECONDS, VIEW_SECONDS = 10.0, 3.0


def violations(page) -> list[tuple]:
    """The serious accessibility violations of a page, by axe."""
    page.evaluate(AXE)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], node["target"], node.get("failureSummary"))
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("model", CASES)
def test_every_view_opens_in_time(opened, model):
    selection, views = CASES[model]
    started = time.perf_counter()
    page = opened.go(model=model, view=views[0], **selection)
    assert time.perf_counter() - started < FIRST_SECONDS
    for view in views[1:]:
        started = time.perf_counter()
        opened.turn(view)
        assert time.perf_counter() - started < VIEW_SECONDS, view
        assert page.locator("[role=alert]").count() == 0, (view, opened.alert())
        assert page.locator(f"[data-view={view}] h2").count() > 0


@pytest.mark.parametrize("model", ["en-de", "long", "lstm", "trigrams"])
def test_nothing_is_wider_than_a_phone(phone, model):
    selection, views = CASES[model]
    page = phone.go(model=model, view=views[0], **selection)
    for view in views:
        phone.turn(view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view


@pytest.mark.parametrize("model", ["en-de", "writer"])
def test_lessons_follow_each_other_and_fit_a_phone(phone, model):
    page = phone.go("learn", model=model)
    steps = page.locator("nav.path button")
    titles = set()
    for number in range(steps.count()):
        steps.nth(number).click()
        phone.wait_until_idle()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, number
        assert page.locator("[role=alert]").count() == 0, (number, phone.alert())
        titles.add(page.locator("#lesson").inner_text())
    assert len(titles) == steps.count() > 5


def test_headings_and_times_are_aligned(opened):
    page = opened.go(view="head", text="I have never been so tired in my life.", attention="encoder")
    lines = page.locator(".lines")
    heading = lines.locator(".heads span").last.bounding_box()
    key = lines.locator("svg > text").first.bounding_box()
    assert heading["x"] == pytest.approx(key["x"], abs=3)
    assert page.locator(".time").evaluate("one => one.getClientRects().length") == 1
    captions = []
    for layer in range(8):  # until a head has a role
        opened.go(
            view="head", text="I have never been so tired in my life.", attention="encoder", layer=layer
        )
        captions.append(page.locator("p.caption").first.inner_text())
        if "by measurement" in captions[-1]:
            break
    assert "by measurement · entropy" in captions[-1], captions


@pytest.mark.parametrize("model", ["en-de", "lstm", "trigrams"])
def test_no_view_has_a_serious_accessibility_violation(opened, model):
    selection, views = CASES[model]
    page = opened.go(model=model, view="tokens", **selection)
    serious = []
    for view in views:
        opened.turn(view)
        serious += [(view, *one) for one in violations(page)]
    assert serious == []


def test_a_lesson_starts_without_edits(opened, box):
    mute = '[{"kind":"mute","attention":"decoder.blocks.0.cross_attention","heads":[0,1,2,3]}]'
    text = "I have never been so tired in my life."
    page = opened.go("learn", text=text, edits=mute)
    assert page.locator("#output").inner_text() != box.translate(text).text
    page.locator("nav.path button").nth(3).click()
    page.wait_for_function(
        "text => document.getElementById('output')?.innerText === text", arg=box.translate(text).text
    )
    assert "edits=" not in page.url


def test_a_family_outside_the_package_has_every_view_it_supports(browser, watched):
    with in_background([("sorter", SorterInUse())]) as address:
        opened = watched(browser.new_page(), address)
        page = opened.go("learn", text="3 1 2")
        views = page.locator("nav.views button b").all_inner_texts()
        assert views == ["Text → tokens", "Scores → softmax", "Heads", "One head"]
        for title in views:
            page.locator("nav.views button", has=page.get_by_text(title, exact=True)).click()
            opened.wait_until_idle()
            assert page.locator("[role=alert]").count() == 0, (title, opened.alert())
        assert page.locator("#output").inner_text() == "1 2 3"
        page.get_by_role("button", name="mute head 0", exact=True).click()
        page.wait_for_selector("button[aria-label='mute head 0'][aria-pressed=true]:enabled")
        page.close()
    assert opened.problems == []


def test_a_family_without_attention_shows_what_there_is(browser, watched):
    with in_background([("bigrams", BigramsInUse())]) as address:
        opened = watched(browser.new_page(), address)
        page = opened.go(text="the dog runs")
        views = page.locator("nav.views button b").all_inner_texts()
        assert views == ["Text → tokens", "Next token", "Generate"]
        assert page.get_by_text("This model has no attention").count() == 1
        opened.turn("logits")
        assert page.locator(".bars .piece").first.inner_text() == "runs"
        opened.turn("generate")
        page.get_by_role("button", name="Next token").last.click()
        page.get_by_text("as text:").wait_for()
        assert page.get_by_text("The cache").count() == 0
        page.close()
    assert opened.problems == []

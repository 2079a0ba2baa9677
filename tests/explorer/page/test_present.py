"""Presenter mode: large type, picture beside text, arrow keys, full screen, a way out."""

import pytest
from playwright.sync_api import expect

from .test_views import AXE

TEXT = "The dog runs through the big garden."
SIZES = [(1280, 720), (1920, 1080)]
TYPE = "one => parseFloat(getComputedStyle(one).fontSize)"


def box(page, selector: str) -> dict:
    return page.locator(selector).first.bounding_box()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_picture_stand_side_by_side_in_large_type(opened, width, height, scheme):
    opened.page.set_viewport_size({"width": width, "height": height})
    opened.page.emulate_media(color_scheme=scheme)
    page = opened.go("learn", present=1, lesson=3)
    text, picture, bar = (box(page, one) for one in ("article", "[data-view]", ".presenter"))
    assert text["x"] + text["width"] <= picture["x"]
    assert picture["x"] + picture["width"] <= width
    assert picture["y"] < height / 4
    assert bar["y"] + bar["height"] == pytest.approx(height, abs=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("article > p:not(.count)").first.evaluate(TYPE) >= 18
    assert page.locator("[data-view] .caption, [data-view] .small, .axes").first.evaluate(TYPE) >= 14
    assert not page.locator("header").is_visible()
    page.evaluate(AXE)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], node["target"]) for one in found for node in one["nodes"]] == []


def test_arrow_keys_lead_through_the_lessons_and_escape_leaves(opened):
    page = opened.go("learn", text=TEXT)
    page.get_by_role("button", name="Present", exact=True).click()
    page.wait_for_selector(".presenter")
    assert "present=1" in page.url
    first = page.locator("#lesson").inner_text()
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle()
    assert "lesson=1" in page.url
    assert page.locator("#lesson").inner_text() != first
    page.keyboard.press("PageDown")
    opened.wait_until_idle()
    assert "lesson=2" in page.url
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageUp")
    opened.wait_until_idle()
    assert page.locator("#lesson").inner_text() == first
    # Before the first there is nothing.
    page.keyboard.press("ArrowLeft")
    assert page.locator("#lesson").inner_text() == first
    page.reload()
    opened.wait_until_idle()
    expect(page.locator(".presenter")).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator("header").wait_for()
    assert page.locator(".presenter").count() == 0
    assert "present" not in page.url


def test_arrow_keys_lead_through_the_views_but_not_out_of_a_field_or_a_matrix(opened):
    page = opened.go(view="tokens", text=TEXT, present=1)
    assert page.get_by_text("compare with").count() == 0
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle("embedding")
    page.locator("#text").focus()
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle("embedding")
    opened.go(view="head", text=TEXT, present=1, attention="encoder", query=1, key=1)
    page.locator(".matrix [role=application]").first.focus()
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle("head")
    assert "key=2" in page.url
    page.get_by_role("button", name="Exit").click()
    page.locator("nav.views").wait_for()


def test_full_screen_is_a_button_and_a_key(opened):
    page = opened.go("learn", text=TEXT, present=1)
    button = page.get_by_role("button", name="Full screen")
    button.click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    page.wait_for_selector("button[aria-pressed=true]:has-text('Full screen')")
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement === null")
    expect(page.locator(".presenter")).to_have_count(1)


def test_presenter_mode_fits_a_phone_and_works_in_a_file(phone, browser, saved, watched):
    page = phone.go("learn", text=TEXT, present=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context = browser.new_context(offline=True)
    opened = watched(context.new_page(), saved().as_uri())
    page = opened.go(view="tokens", present=1)
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle("embedding")
    context.close()
    assert opened.problems == []

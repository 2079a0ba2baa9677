"""Dark mode: it follows the system or the button, is remembered, and stays readable in every view."""

import pytest

from .test_views import AXE, CASES

TEXT = "The dog runs through the big garden."
CONTRAST = "() => axe.run(document, {runOnly: ['color-contrast']})"
PAPER = "() => getComputedStyle(document.documentElement).backgroundColor"


def lightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(","))


@pytest.mark.parametrize("model", ["en-de", "lstm", "trigrams"])
def test_text_is_readable_in_the_dark_in_every_view(opened, model):
    selection, views = CASES[model]
    opened.page.emulate_media(color_scheme="dark")
    page = opened.go(model=model, view="tokens", **selection)
    assert lightness(page.evaluate(PAPER)) < 150
    page.evaluate(AXE)
    unreadable = []
    for view in views:
        opened.turn(view)
        found = page.evaluate(CONTRAST)["violations"]
        unreadable += [
            (view, node["target"], node["failureSummary"]) for one in found for node in one["nodes"]
        ]
    assert unreadable == []


def test_lessons_and_edits_are_readable_in_the_dark(opened):
    mute = '[{"kind":"mute","attention":"decoder.blocks.0.cross_attention","heads":[0]}]'
    opened.page.emulate_media(color_scheme="dark")
    for door, more in (("learn", {"lesson": 8}), ("inspect", {"view": "heads", "edits": mute, "text": TEXT})):
        page = opened.go(door, **more)
        page.evaluate(AXE)
        assert [
            node["target"] for one in page.evaluate(CONTRAST)["violations"] for node in one["nodes"]
        ] == []


def test_the_button_switches_and_is_remembered(opened):
    page = opened.go(view="head", text=TEXT, attention="decoder")
    light = page.evaluate(PAPER)
    button = page.get_by_role("button", name="Dark", exact=True)
    assert button.get_attribute("aria-pressed") == "false"
    button.focus()
    page.keyboard.press("Enter")
    dark = page.evaluate(PAPER)
    assert lightness(dark) < 150 < lightness(light)
    page.reload()
    opened.wait_until_idle("head")
    assert page.evaluate(PAPER) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(PAPER) == dark
    page.get_by_role("button", name="Dark", exact=True).click()
    assert page.evaluate(PAPER) == light


def test_a_weight_of_zero_has_the_colour_of_the_card(opened):
    page = opened.go(view="cross", text=TEXT)
    pixels = """() => {
        const drawn = document.querySelector('.matrix canvas');
        const canvas = new OffscreenCanvas(drawn.width, drawn.height);
        canvas.getContext('2d').drawImage(drawn, 0, 0);
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Map();
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] === 255) {
                const key = [data[i], data[i + 1], data[i + 2]].join(',');
                seen.set(key, (seen.get(key) ?? 0) + 1);
            }
        const { backgroundColor } = getComputedStyle(document.querySelector('[data-view]'));
        const card = backgroundColor.match(/\\d+/g).map(Number);
        // The colour of a large area of the canvas that is nearest to the card.
        return Math.min(...[...seen].filter(([, count]) => count > 200)
            .map(([key]) => Math.max(...key.split(',').map((part, i) => Math.abs(part - card[i])))));
    }"""
    assert page.evaluate(pixels) <= 12
    page.get_by_role("button", name="Dark", exact=True).click()
    opened.wait_until_idle()
    assert page.evaluate(pixels) <= 12


def test_a_page_without_storage_still_switches(browser, box, tmp_path, watched):
    notebook = tmp_path / "notebook.html"
    frame = box.explain(TEXT).page()._repr_html_()
    notebook.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{frame}")
    page = browser.new_page()
    opened = watched(page, notebook.as_uri())
    page.goto(notebook.as_uri())
    button = page.frame_locator("iframe").get_by_role("button", name="Dark", exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    page.close()
    assert opened.problems == []

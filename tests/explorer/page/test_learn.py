"""Learn: what the lessons say is on the page, and the reader stays in the lesson."""

import pytest

from clearhead.explorer.lessons import lessons_of
from clearhead.tasks.load import load

OWN = "The old man reads a book."


def lesson_number(model, name: str, title: str) -> int:
    return [lesson.title for lesson in lessons_of(model, name)].index(title)


def position_of(page, selector: str) -> dict:
    return page.locator(selector).first.bounding_box()


def test_the_three_vectors_are_of_the_same_word(opened, box):
    number = lesson_number(box, "en-de", "Queries, keys, values")
    page = opened.go("learn", lesson=number)
    words = []
    for part in ("Q queries", "K keys", "V values"):
        page.get_by_role("button", name=part).click()
        opened.wait_until_idle("projections")
        words.append(page.locator("[data-view=projections] .token[aria-pressed=true]").inner_text())
    assert words == [words[0]] * 3
    assert words[0] == "windows"


def test_lessons_are_those_of_the_model_and_its_languages(opened):
    french = load("fr-en")
    page = opened.go("learn", model="fr-en", lesson=lesson_number(french, "fr-en", "Cross-attention"))
    article = page.locator("article").inner_text()
    assert "Queries come from the English words, keys and values from the French words." in article
    assert "German" not in article
    gpt = load("shakespeare")
    page = opened.go(
        "learn", model="shakespeare", lesson=lesson_number(gpt, "shakespeare", "Embedding and position")
    )
    article = page.locator("article").inner_text()
    assert "rotary positions" in article
    assert "Positional encoding is added" not in article
    assert "Nothing is added" in article


def test_a_bar_is_as_long_as_the_probability(opened):
    page = opened.go(view="logits", text="I closed the windows.", position=2)
    for row in page.locator("[data-view=logits] .bars li").all()[:3]:
        percent = float(row.locator(".number").first.inner_text().removesuffix(" %"))
        track, bar = (row.locator(one).bounding_box() for one in (".track", ".own"))
        assert bar["width"] / track["width"] == pytest.approx(percent / 100, abs=0.01)


def test_the_next_lesson_keeps_your_own_text_and_drops_what_holds_for_another(opened, box):
    page = opened.go("learn", lesson=0)
    assert "in capitals" in page.locator("article").inner_text()
    page.fill("#text", OWN)
    page.press("#text", "Enter")
    page.wait_for_function("text => document.querySelector('.text')?.innerText === text", arg=OWN)
    opened.wait_until_idle()
    assert "in capitals" not in page.locator("article").inner_text()
    page.locator("nav.path button").nth(lesson_number(box, "en-de", "One head at work")).click()
    opened.wait_until_idle("head")
    assert page.locator("#text").input_value() == OWN
    assert "occurs twice" not in page.locator("article").inner_text()
    page.get_by_role("button", name="Use “Your cat is a lovely cat.”").click()
    page.get_by_text("“cat” occurs twice").wait_for()
    assert page.locator("#text").input_value() == "Your cat is a lovely cat."


def test_a_click_on_the_map_stays_in_the_lesson(opened):
    page = opened.go("learn", lesson=1)
    title = page.locator("#lesson").inner_text()
    page.locator("nav.map").get_by_role("button", name="feed-forward").first.click()
    opened.wait_until_idle("feedforward")
    assert page.locator("#lesson").inner_text() == title
    assert "door=learn" in page.url
    page.get_by_role("button", name="Back to “Embedding + position”").click()
    opened.wait_until_idle("embedding")
    assert page.get_by_text("You left the view").count() == 0


def test_two_meanings_are_further_apart_than_one_meaning_moved(opened, box):
    page = opened.go("learn", lesson=lesson_number(box, "en-de", "One word, two meanings"))
    page.wait_for_selector("[data-cosine]")
    found = {
        one.get_attribute("data-cosine"): float(one.inner_text())
        for one in page.locator("[data-cosine]").all()
    }
    other, moved = found["two meanings (texts 1 and 2)"], found["the same meaning, moved (texts 1 and 3)"]
    assert other < moved < 1
    fields = page.locator("[data-view=vectors] .form input")
    texts = [field.input_value() for field in fields.all()]
    assert texts[0] == "bank"
    assert "river" in texts[1]
    assert "money" in texts[2]


@pytest.mark.parametrize("number", [3, 8, 14])
def test_text_and_picture_fit_side_by_side_at_150_percent(browser, address, watched, number):
    # 1280 × 720 at 150 % has this many CSS pixels.
    context = browser.new_context(viewport={"width": 853, "height": 480}, device_scale_factor=1.5)
    opened = watched(context.new_page(), address)
    page = opened.go("learn", lesson=number)
    article, card = (position_of(page, one) for one in ("article", ".learn > section"))
    assert article["x"] + article["width"] <= card["x"]
    assert abs(article["y"] - card["y"]) < 20
    assert card["y"] < 240
    assert card["width"] > 500
    assert page.evaluate("document.documentElement.scrollWidth") <= 853
    context.close()
    assert opened.problems == []

"""Cross-attention on the page: rows by the word written, the best aligner first, curves that can be read."""

from itertools import pairwise

import pytest

from clearhead.inspection.explanation_summaries import Summaries

TEXT = "The dog runs through the big garden."
LONG = " ".join(f"word{number % 100}" for number in range(60))
BADGES = {True: "word being read", False: "word being written"}


def rows_of(page) -> list[str]:
    return [one.strip() for one in page.locator("[data-curves] svg g text").all_text_contents()]


def test_rows_are_the_words_written(opened, box):
    target = box.explain(TEXT).target
    page = opened.go(view="cross", text=TEXT, attention="cross")
    page.get_by_role("button", name="subwords").click()
    opened.wait_until_idle()
    written = [token.piece.removeprefix("▁") for token in target[1:]]
    rows = rows_of(page)
    assert [row.removeprefix("·") for row in rows] == [*written, "</s>"]
    # The index of a row is that of the query in Python.
    page.locator("[data-curves] svg g").nth(2).click()
    assert "query=2" in page.url
    assert "token written ↓" in page.locator("[data-view=cross] .axes").inner_text()


def test_it_opens_with_the_best_aligner_and_says_what_each_head_looks_at(opened, box):
    summaries = Summaries(box.explain(TEXT))
    best = summaries.aligners[0]
    page = opened.go(view="cross", text=TEXT)
    page.wait_for_function("() => location.hash.includes('attention=cross')")
    opened.wait_until_idle()
    assert f"Layer {best.layer}, head {best.head}" in page.locator("#badge").inner_text()
    assert page.locator("#badge .badge").inner_text() == BADGES[best.reads]
    shown = page.locator(".ranked li").all_inner_texts()
    for one, line in zip(summaries.aligners, shown, strict=False):
        assert f"layer {one.layer}, head {one.head}" in line
        assert (BADGES[one.reads] if one.agreement >= 0.3 else "no clear alignment") in line


def test_a_head_that_looks_at_the_word_read_is_explained(opened, box):
    reading = next(one for one in Summaries(box.explain(TEXT)).aligners if one.reads and one.agreement > 0.3)
    page = opened.go(
        view="cross", text=TEXT, attention="cross", layer=reading.layer, head=reading.head, query=2
    )
    words = rows_of(page)
    message = page.locator("#badge").inner_text()
    assert "just read" in message
    assert f"the row of “{words[2]}” shows where “{words[1]}” comes from" in " ".join(message.split())


def test_several_heads_have_colours(opened, box):
    page = opened.go(view="cross", text=TEXT, attention="cross", layer=1)
    page.get_by_role("button", name="heads in colours").click()
    opened.wait_until_idle()
    assert page.locator("#colours .key").count() == len(
        box.explain(TEXT)["decoder.blocks.1.cross_attention.weights"]
    )
    colours = page.evaluate(
        "() => new Set([...document.querySelectorAll('[data-curves] path')].map(one => "
        "one.getAttribute('stroke'))).size"
    )
    assert colours > 1


@pytest.mark.parametrize("device", ["opened", "phone"])
def test_curves_can_be_read_with_sixty_words(device, request):
    opened = request.getfixturevalue(device)
    page = opened.go(view="cross", model="long", text=LONG, target=LONG, attention="cross")
    texts = page.locator("[data-curves] svg text")
    boxes = [one.bounding_box() for one in page.locator("[data-curves] svg g text").all()]
    assert len(boxes) == 61
    assert all(below["y"] >= above["y"] + 12 for above, below in pairwise(boxes))
    size = texts.first.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert size >= 12
    assert "word0" in texts.all_text_contents()[0]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_above_the_limit_the_page_says_what_is_left_out(opened):
    text = " ".join(f"word{number % 100}" for number in range(90))
    page = opened.go(view="cross", model="long", text=text, target=text, attention="cross")
    assert page.locator("[data-curves]").count() == 0
    message = page.locator("#left-out").inner_text()
    assert "drawn for up to 80 words" in message
    assert "91 words" in message

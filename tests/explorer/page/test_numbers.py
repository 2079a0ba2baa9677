"""The page shows Python's numbers, and interventions in it change the output."""

import contextlib
import io
import json
import re
from urllib.parse import urlencode

import pytest

from clearhead.inspection.explanation_summaries import Summaries
from clearhead.tasks.load import load

from ..test_ngram import ngram_model
from ..test_recurrent import recurrent_translator

TEXT = "The dog runs through the big garden."
# The name and value under the pointer, once they belong to another cell than before.
POINTED_AT = """before => {
    const message = ["code", ".value"].map(part => document.querySelector(`.hint ${part}`)?.innerText);
    return message[0] && message[0] !== before && /[0-9]/.test(message[1]) && message;
}"""


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.parametrize(
    ("attention", "path"),
    [
        ("encoder", "encoder.blocks.2.attention"),
        ("decoder", "decoder.blocks.2.attention"),
        ("cross", "decoder.blocks.2.cross_attention"),
    ],
)
def test_weights_on_the_page_equal_python(opened, box, attention, path):
    explanation = box.explain(TEXT)
    page = opened.go(view="softmax", text=TEXT, attention=attention, layer=2, head=1, query=3)
    weights = explanation[f"{path}.weights"][1, 3]
    page.wait_for_selector("[data-alpha]")
    shown = [number(cell) for cell in page.locator("[data-alpha]").all_inner_texts()]
    assert shown == pytest.approx(weights.tolist(), abs=5e-5, rel=1e-3)
    assert number(page.locator("#row-sum").inner_text()) == pytest.approx(1, abs=1e-3)
    assert page.get_by_text(f"{path}.weights").count() > 0


def test_the_tooltip_has_four_digits_and_the_python_name(opened, box):
    names = {"explanation": box.explain(TEXT)}
    page = opened.go(view="head", text=TEXT, attention="cross", layer=2, head=1)
    matrix = page.locator("[data-view=head] canvas").first
    matrix.scroll_into_view_if_needed()
    box_of_matrix = matrix.bounding_box()
    pointed = None
    for part in (0.3, 0.45, 0.6, 0.75):
        x = box_of_matrix["x"] + part * box_of_matrix["width"]
        page.mouse.move(x, box_of_matrix["y"] + part * box_of_matrix["height"])
        pointed, value = page.wait_for_function(POINTED_AT, arg=pointed).json_value()
        assert len(value.split(".")[1]) == 4
        # The name is Python that works after the copied code.
        assert number(value) == pytest.approx(float(eval(pointed, names)), abs=6e-5)
        assert "explanation = model.explain(" in page.locator("#python").text_content()


def test_the_output_and_the_next_probability_equal_python(opened, box):
    explanation = box.explain(TEXT)
    page = opened.go(view="logits", text=TEXT, position=2)
    assert page.locator("#output").inner_text() == explanation.output == box.translate(TEXT).text
    assert number(page.locator("#difference").inner_text()) < 1e-5
    page.wait_for_selector("#next-probability")
    token = explanation.target[2]
    probability = explanation["logits"][2].softmax(-1)[token.next]
    shown = number(page.locator("#next-probability").inner_text())
    assert shown == pytest.approx(float(probability), rel=2e-3)


def test_gates_on_the_page_equal_python(opened):
    page = opened.go(model="lstm", view="gates", text="the dog runs", key=2)
    for choice in ("1", "backwards", "forget gate", "number"):
        page.locator("[data-view=gates] .segmented").get_by_role("button", name=choice, exact=True).click()
    opened.wait_until_idle()
    gate = recurrent_translator(cell="lstm").explain("the dog runs")["encoder.layers.1.forget_gate"][1, 2]
    assert number(page.locator("#gate-mean").inner_text()) == pytest.approx(float(gate.mean()), abs=6e-5)
    shown = page.locator("[data-view=gates] .readout")
    assert shown.locator("code").inner_text() == 'explanation["encoder.layers.1.forget_gate"][1, 2, 0]'
    assert number(shown.locator("b").inner_text()) == pytest.approx(float(gate[0]), abs=6e-5)


@pytest.mark.parametrize("model", ["en-de", "lstm"])
def test_gradients_on_the_page_equal_python(opened, box, model):
    text = "the dog runs"
    page = opened.go(model=model, view="gradient", text=text)
    used = box if model == "en-de" else recurrent_translator(cell="lstm")
    norms = Summaries(used.explain(text)).gradients
    shown = [number(one) for one in page.locator("[data-amount]").all_inner_texts()]
    assert shown == pytest.approx(norms.sum(0).tolist(), abs=1e-3)
    page.get_by_role("button", name="one of them").click()
    page.locator("[data-view=gradient] .token").first.click()
    shown = [number(one) for one in page.locator("[data-amount]").all_inner_texts()]
    assert shown == pytest.approx(norms[0].tolist(), abs=1e-3)


def test_shares_of_contexts_on_the_page_equal_python(opened):
    page = opened.go(model="trigrams", view="backoff", text="the dog sleeps", position=2)
    shares = ngram_model().explain("the dog sleeps")["orders"][2]
    labels = page.locator("[data-view=backoff] .bars .small").all_inner_texts()
    assert labels == ["after “the dog”", "after “dog”", "no context", "any word"]
    shown = [number(one) for one in page.locator("[data-amount]").all_inner_texts()]
    assert shown == pytest.approx(shares.flip(0).tolist(), abs=6e-5)


def test_the_first_picture_does_not_wait_for_the_end_of_the_pass(opened):
    page, held = opened.page, []
    page.route(re.compile(r"/api/trace/\w+$"), lambda route: held.append(route))
    page.goto(f"{opened.address}#{urlencode({'door': 'inspect', 'view': 'head', 'text': TEXT})}")
    page.wait_for_selector("[data-view=head] canvas")
    assert page.locator("#output").inner_text()
    assert page.locator("#difference").count() == 0
    held[0].continue_()
    page.wait_for_selector("#difference")
    assert number(page.locator("#difference").inner_text()) < 1e-5
    assert page.locator("output").inner_text().count("log p") == 1


def python_of(page) -> str:
    """The output of the code on the page."""
    code = page.locator("#python").text_content()
    with contextlib.redirect_stdout(io.StringIO()) as message:
        exec(code, {})
    return message.getvalue().removesuffix("\n")


def test_muting_changes_the_translation_undo_restores_it_and_python_does_the_same(opened, box):
    page = opened.go(view="head", text="I have never been so tired in my life.", attention="cross", layer=0)
    plain = page.locator("#output").inner_text()
    for head in range(4):
        page.get_by_role("button", name=f"mute head {head}", exact=True).click()
        page.wait_for_selector(f"button[aria-label='mute head {head}'][aria-pressed=true]:enabled")
    opened.wait_until_idle()
    muted = page.locator("#output").inner_text()
    assert muted != plain
    assert page.locator("#before").inner_text() == plain
    assert python_of(page) == muted
    page.get_by_role("button", name="Undo all").click()
    page.wait_for_function("text => document.getElementById('output')?.innerText === text", arg=plain)


def test_an_edited_row_changes_the_translation(opened, box):
    text = "She explanation him that she had never seen such a beautiful sunset before."
    weights = [0.0] * len(box.explain(text).source)
    weights[3] = 1.0
    row = {"kind": "row", "attention": "decoder.blocks.2.cross_attention", "query": 0, "weights": weights}
    rows = json.dumps([{**row, "head": head} for head in range(4)])
    page = opened.go(view="head", text=text, attention="cross", edits=rows)
    changed = page.locator("#output").inner_text()
    assert changed != box.translate(text).text
    assert python_of(page) == changed


def test_two_pages_at_once_show_their_own_texts(browser, address, box, opened):
    other = browser.new_page()
    other.goto(f"{address}#door=inspect&view=tokens&text=Where+is+the+station%3F")
    page = opened.go(view="tokens", text=TEXT)
    other.wait_for_selector("#output")
    assert page.locator("#output").inner_text() == box.translate(TEXT).text
    assert other.locator("#output").inner_text() == load("en-de").translate("Where is the station?").text
    other.close()

"""The whole block on the page: the numbers at the end of each sum are those of Python."""

import pytest

TEXT = "I closed the windows."


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def shown(page, selector: str) -> float:
    return number(page.locator(selector).first.inner_text())


def cell(page, title: str) -> float:
    """The number of the chosen cell in the matrix of this name."""
    return shown(page, f"[data-beside='{title}'] .readout b")


@pytest.mark.parametrize(("attention", "path"), [("encoder", "attention"), ("cross", "cross_attention")])
def test_what_attention_outputs_equals_python(opened, box, attention, path):
    explanation = box.explain(TEXT)
    stack = "encoder" if attention == "encoder" else "decoder"
    selection = {"attention": attention, "layer": 1, "head": 2, "query": 3, "dimension": 7, "output": 11}
    page = opened.go(view="mix", text=TEXT, **selection)
    block = f"{stack}.blocks.1"
    assert shown(page, "#mixed") == pytest.approx(
        float(explanation[f"{block}.{path}.head_output"][2, 3, 7]), abs=1e-3
    )
    assert shown(page, "#added") == pytest.approx(
        float(explanation[f"{block}.{path}.added"][3, 11]), abs=1e-3
    )
    residual = "attention_residual" if path == "attention" else "cross_residual"
    assert shown(page, "#stream") == pytest.approx(
        float(explanation[f"{block}.{residual}.stream"][3, 11]), abs=1e-2
    )
    assert page.locator("[data-view=mix] .heads .strip").count() == 4
    # The number at the end of each sum is the marked cell of the matrix beside it.
    assert cell(page, "weights · V of head 2") == pytest.approx(shown(page, "#mixed"), abs=2e-4)
    assert cell(page, "added by attention") == pytest.approx(shown(page, "#added"), abs=2e-4)
    assert cell(page, "output of the norm") == pytest.approx(shown(page, "[data-norm]"), abs=2e-4)
    page.locator("[data-beside='weights · V of head 2'] [role=application]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    opened.wait_until_idle()
    expected = float(explanation[f"{block}.{path}.head_output"][2, 4, 8])
    assert cell(page, "weights · V of head 2") == pytest.approx(expected, abs=1e-4)
    assert shown(page, "#mixed") == pytest.approx(expected, abs=1e-3)


def test_the_feed_forward_network_equals_python(opened, box):
    explanation = box.explain(TEXT)
    page = opened.go(view="feedforward", text=TEXT, attention="encoder", layer=2, key=3, unit=5, output=11)
    block = box.model.encoder.blocks[2]
    stream = explanation["encoder.blocks.2.attention_residual.stream"]
    inner = block.feedforward.inner(block.feedforward_residual.norm(stream))[3].detach()
    assert shown(page, "#unit-input") == pytest.approx(float(inner[5]), abs=1e-3)
    assert shown(page, "#unit") == pytest.approx(float(inner.relu()[5]), abs=1e-3)
    added = explanation["encoder.blocks.2.feedforward.added"][3, 11]
    assert shown(page, "#added") == pytest.approx(float(added), abs=1e-2)
    norm = block.feedforward_residual.norm(stream)[3, 11].detach()
    assert shown(page, "[data-norm]") == pytest.approx(float(norm), abs=1e-3)
    assert cell(page, "units") == pytest.approx(float(inner.relu()[5]), abs=1e-3)
    assert cell(page, "added by the feed-forward network") == pytest.approx(float(added), abs=1e-4)
    assert cell(page, "output of the norm") == pytest.approx(float(norm), abs=1e-3)
    # Without a choice it opens with the strongest unit.
    page = opened.go(view="feedforward", text=TEXT, attention="encoder", layer=2, key=3)
    assert page.locator("tbody tr").first.locator("button[aria-pressed=true]").count() == 1


def test_the_readout_equals_python(opened, box):
    explanation = box.explain(TEXT)
    page = opened.go(view="readout", text=TEXT, position=2)
    token = explanation.target[2].next
    assert shown(page, "#logit") == pytest.approx(float(explanation["logits"][2, token]), abs=1e-2)
    probability = explanation["logits"][2].softmax(-1)[token]
    assert shown(page, "#probability") == pytest.approx(float(probability), abs=1e-3)
    assert cell(page, "logits") == pytest.approx(float(explanation["logits"][2, token]), abs=1e-3)
    state = explanation["decoder.states"][2, 0]
    assert cell(page, "output of the norm") == pytest.approx(float(state), abs=1e-4)
    page.locator("[data-view=readout] .segmented button").nth(1).click()
    opened.wait_until_idle()
    second = int(explanation["logits"][2].topk(2).indices[1])
    assert f"token={second}" in page.url
    assert shown(page, "#logit") == pytest.approx(float(explanation["logits"][2, second]), abs=1e-2)
    # Another model has another vocabulary, so the chosen token is forgotten.
    page.locator("header select").select_option("writer")
    page.wait_for_function("() => location.hash.includes('model=writer')")
    opened.wait_until_idle("readout")
    assert "token=" not in page.url
    assert page.locator("[role=alert]").count() == 0

"""The block in a saved file: the page computes it from a few rows of the weights, as the server does."""

import pytest
from playwright.sync_api import expect

from clearhead.explorer.block import attention_output, feedforward, readout
from clearhead.explorer.projection import projection
from clearhead.explorer.standalone import standalone_page
from clearhead.explorer.trace_session import start_trace
from clearhead.tasks.load import load_built_in

from .test_numbers import number

TEXTS = {
    "en-de": "The dog runs through the big garden.",
    "shakespeare": "Once upon",
    "masked-en": "I closed the <mask>.",
}


@pytest.mark.parametrize("name", TEXTS)
def test_sums_in_a_file_equal_the_servers(browser, watched, tmp_path, name):
    model = load_built_in(name)
    session = start_trace(model, name, {"text": TEXTS[name]})
    session.run()
    session.wait()
    path = tmp_path / "trace.html"
    path.write_text(standalone_page(model.explain(TEXTS[name])), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    opened = watched(page, path.as_uri())
    part = session.explanation.anatomy.attentions[-1]
    stack = part.stack
    chosen = {"attention": part.name, "layer": 1, "head": 1, "query": 1, "key": 1, "position": 1, "output": 3}

    def shown(view: str, selector: str, **more) -> float:
        opened.go(view=view, **chosen, **more)
        assert page.locator("[role=alert]").count() == 0, opened.alert()
        return number(page.locator(selector).first.inner_text())

    for which in ("queries", "keys", "values"):
        found = projection(session, part.name, 1, 1, 1, which, 2)
        assert shown("projections", "#projected", part=which, dimension=2) == pytest.approx(
            found["product"], abs=1e-3
        )
    found = attention_output(session, part.name, 1, 1, 1, 9, 3)
    assert shown("mix", "#mixed", dimension=9) == pytest.approx(found["head_output"], abs=1e-3)
    assert shown("mix", "#added") == pytest.approx(found["added"][3], abs=1e-3)
    assert shown("mix", "[data-norm]") == pytest.approx(found["norm"]["output"][3], abs=1e-3)
    found = feedforward(session, stack, 1, 1, None, 3)
    assert shown("feedforward", "#unit-input") == pytest.approx(found["unit_input"], abs=1e-3)
    assert shown("feedforward", "#unit") == pytest.approx(found["hidden"][found["unit"]], abs=1e-3)
    assert shown("feedforward", "#added") == pytest.approx(found["added"][3], abs=1e-3)
    assert shown("feedforward", "#stream") == pytest.approx(found["before"][3] + found["added"][3], abs=1e-3)
    found = readout(session, 1, None)
    assert shown("readout", "#logit") == pytest.approx(found["logit"], abs=1e-3)
    assert shown("readout", "#probability") == pytest.approx(found["probability"], abs=1e-3)
    # A number whose weights are not in the file is not offered, and the page says so.
    opened.go(view="mix", **{**chosen, "output": 200})
    assert "first 4 numbers" in page.locator("[role=note]").first.inner_text()
    expect(page.get_by_role("heading", name="Add: number 3 of the stream")).to_have_count(1)
    context.close()
    assert opened.problems == []

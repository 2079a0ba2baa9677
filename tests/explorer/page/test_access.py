"""The page without a mouse, without a server, and in a notebook."""

from ..test_recurrent import recurrent_translator

TEXT = "The dog runs through the big garden."

IN_A_FILE = ("tokens", "embedding", "projections", "softmax", "mix", "heads", "head", "cross", "feedforward")
IN_A_FILE += ("residual", "gradient", "readout", "logits", "beam")
LIVE_ONLY = ("generate", "vectors")


def reach(page, name: str, most: int = 120) -> None:
    """Presses Tab until something with this name has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        label = page.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || ''")
        if label.strip().startswith(name):
            return
    raise AssertionError(f"Tab never reaches {name!r}")


def test_the_page_works_with_the_keyboard_alone(opened):
    page = opened.go("learn", text=TEXT)
    plain = page.locator("#output").inner_text()
    reach(page, "Inspect")
    page.keyboard.press("Enter")
    reach(page, "Cross-attention")
    page.keyboard.press("Enter")
    opened.wait_until_idle("cross")
    reach(page, "mute head 0")
    page.keyboard.press("Enter")
    page.wait_for_selector("button[aria-label='mute head 0'][aria-pressed=true]:enabled")
    reach(page, "Undo")
    page.keyboard.press("Enter")
    page.wait_for_function("text => document.getElementById('output')?.innerText === text", arg=plain)


def test_the_selection_is_in_the_url(opened):
    page = opened.go(view="heads", text=TEXT)
    opened.turn("residual")
    assert "view=residual" in page.url
    page.go_back()
    opened.wait_until_idle("heads")
    page.reload()
    opened.wait_until_idle("heads")


def test_a_file_opens_without_a_server_or_a_network(browser, box, saved, watched):
    context = browser.new_context(offline=True)
    page = context.new_page()
    opened = watched(page, saved().as_uri())
    opened.go(view=IN_A_FILE[0])
    for view in IN_A_FILE:
        opened.turn(view)
        assert page.locator("[role=alert]").count() == 0
    for view in LIVE_ONLY:
        opened.turn(view)
        assert "needs a server" in page.locator(f"[data-view={view}] p").inner_text()
    assert page.locator("nav.views button").count() == len(IN_A_FILE) + len(LIVE_ONLY)
    assert page.locator("#output").inner_text() == box.translate(TEXT).text
    opened.go(view="softmax", attention="cross", layer=1, head=2, query=2)
    page.wait_for_selector("[data-alpha]")
    shown = [float(cell) for cell in page.locator("[data-alpha]").all_inner_texts()]
    weights = box.explain(TEXT)["decoder.blocks.1.cross_attention.weights"][2, 2]
    assert max(abs(a - b) for a, b in zip(shown, weights.tolist(), strict=True)) < 1e-3
    context.close()
    assert opened.problems == []
    assert [url for url in opened.requested if not url.startswith(("file:", "data:", "about:"))] == []


def test_a_file_of_a_recurrent_model_has_its_gates(browser, tmp_path, watched):
    explanation = recurrent_translator(cell="lstm").explain("the dog runs")
    path = explanation.save(tmp_path / "trace.html")
    page = browser.new_page()
    opened = watched(page, path.as_uri())
    opened.go(view="gates", key=1)
    gate = explanation["encoder.layers.0.input_gate"][0, 1]
    assert abs(float(page.locator("#gate-mean").inner_text()) - float(gate.mean())) < 1e-4
    page.close()
    assert opened.problems == []


def test_an_exported_picture_holds_every_token_as_text(browser, box, tmp_path):
    explanation = box.explain(TEXT)
    path = explanation.save(tmp_path / "head.svg", "head", attention="cross", layer=1, head=2)
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    written = page.evaluate("[...document.querySelectorAll('text')].map(one => one.textContent.trim())")
    for token in (*explanation.source, *explanation.target):
        assert token.piece in written, (token.piece, written)
    context.close()


def test_a_notebook_shows_the_page_in_a_frame(browser, box, tmp_path, watched):
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<!doctype html><meta charset=utf-8><title>notebook</title>{box.explain(TEXT).page()._repr_html_()}"
    )
    page = browser.new_page()
    opened = watched(page, notebook.as_uri())
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    assert frame.locator("#output").inner_text() == box.translate(TEXT).text
    frame.get_by_text("Heads", exact=True).first.click()
    frame.get_by_role("heading", name="Heads").first.wait_for()
    page.close()
    assert opened.problems == []


def test_markup_in_a_file_is_never_run(browser, saved, watched):
    page = browser.new_page()
    markup = "</script><script>document.title=1</script><img src=x onerror=document.title=1>"
    # A short target, because the model's own output for such a text is long.
    opened = watched(page, saved(markup, target="<img src=x onerror=document.title=1>").as_uri())
    opened.go(view="tokens")
    # A file's policy would let handlers run; only the page's escaping prevents it.
    for view in ("tokens", "cross", "logits"):
        opened.turn(view)
        assert page.locator("img[src=x]").count() == 0
        assert page.title() != "1"
    page.close()
    assert opened.problems == []

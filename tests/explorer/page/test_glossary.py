"""Tooltips of terms: formula and meaning, by mouse and keyboard, from one glossary."""

import pytest

from clearhead.explorer.glossary import GLOSSARY

from .test_views import AXE

TEXT = "The dog runs through the big garden."
TERMS = {
    "projections": ("query", "key", "value"),
    "softmax": ("softmax", "weight"),
    "head": ("entropy", "weight"),
    "heads": ("entropy", "weight"),
    "mix": ("norm", "residual"),
    "residual": ("residual",),
    "readout": ("softmax", "logit", "norm"),
    "logits": ("logit", "entropy", "temperature"),
}


def term(page, name: str):
    return page.locator(f"[data-view] [data-term={name}]").first


def test_every_term_is_explained_somewhere():
    assert {name for names in TERMS.values() for name in names} == set(GLOSSARY)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_terms_show_their_formula_on_hover_and_focus(opened, scheme):
    opened.page.emulate_media(color_scheme=scheme)
    page = opened.go(view="projections", text=TEXT)
    page.evaluate(AXE)
    hint = page.locator(".hint")
    for view, names in TERMS.items():
        opened.turn(view)
        for name in names:
            term(page, name).focus()
            assert GLOSSARY[name]["formula"] in hint.inner_text(), (view, name)
            assert GLOSSARY[name]["meaning"] in hint.inner_text()
            box = hint.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 1280
            described = term(page, name).evaluate(
                "one => document.getElementById(one.ariaDescribedByElements[0].id).textContent"
            )
            assert GLOSSARY[name]["meaning"] in described
            page.keyboard.press("Escape")
            hint.wait_for(state="detached")
        term(page, names[0]).hover()
        assert GLOSSARY[names[0]]["term"] in hint.inner_text()
        page.mouse.move(5, 5)
        hint.wait_for(state="detached")
        found = page.evaluate("() => axe.run(document.querySelector('[data-view]'))")["violations"]
        assert [(view, one["id"], node["target"]) for one in found for node in one["nodes"]] == []


def test_terms_are_reached_with_tab(opened):
    page = opened.go(view="projections", text=TEXT)
    page.get_by_role("button", name="PNG", exact=True).focus()
    page.keyboard.press("Tab")
    assert GLOSSARY["query"]["formula"] in page.locator(".hint").inner_text()


def test_terms_are_explained_on_a_phone_and_in_a_file(phone, browser, saved, watched):
    page = phone.go(view="logits", text=TEXT)
    term(page, "logit").tap()
    box = page.locator(".hint").bounding_box()
    assert box["x"] + box["width"] <= 390
    context = browser.new_context(offline=True)
    page = context.new_page()
    watched(page, saved().as_uri()).go(view="readout")
    term(page, "logit").focus()
    assert GLOSSARY["logit"]["formula"] in page.locator(".hint").inner_text()
    context.close()

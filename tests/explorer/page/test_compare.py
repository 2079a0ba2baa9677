"""Two traces side by side: another text, another model, the model without edits, a reference translation."""

import json
import re
import time

import pytest
import torch
from playwright.sync_api import expect

from clearhead.inspection import intervene
from clearhead.inspection.edits import Mute
from clearhead.tasks.load import load

from .test_access import reach
from .test_numbers import number
from .test_views import LONG, OF_A_TRANSLATOR, violations

TEXT, OTHER = "I closed the windows.", "I closed the old door."
REFERENCE = "Ich habe die Fenster zugemacht."
MUTED = ("encoder.blocks.1.attention", (0, 1))
EDITS = json.dumps([{"kind": "mute", "attention": MUTED[0], "heads": MUTED[1]}])
VIEWS = [view for view in OF_A_TRANSLATOR if view != "vectors"]


def sides(page) -> list[str]:
    """The names of what is compared."""
    return page.locator("[data-side] > p:first-child b").all_inner_texts()


def largest(page) -> float:
    """The largest difference on the page."""
    page.wait_for_selector("[data-largest]")
    return number(page.locator("[data-largest]").first.inner_text())


def losses(page, side: str) -> list[float]:
    return [number(one) for one in page.locator(f"[data-side={side}] [data-loss]").all_inner_texts()]


def wait_for_both(opened, view: str) -> None:
    for pane in ("left", "right"):
        opened.page.wait_for_selector(f"[data-pane={pane}][data-view={view}]")
    opened.page.wait_for_selector("text=comparing …", state="detached")
    opened.wait_until_idle(view)


@pytest.mark.parametrize(
    ("compare", "more"),
    [
        ("text", {"other": OTHER}),
        ("model", {"other": "en-fr"}),
        ("edits", {"edits": EDITS}),
        ("target", {"other": REFERENCE}),
    ],
)
def test_every_view_opens_side_by_side(opened, compare, more):
    page = opened.go(view="tokens", text=TEXT, compare=compare, **more)
    for view in VIEWS:
        opened.turn(view)
        wait_for_both(opened, view)
        assert page.locator("[role=alert]").count() == 0, (view, opened.alert())
        assert len(sides(page)) == 2
        # A given translation has no beam tree.
        missing = view == "beam" and compare == "target"
        expect(page.locator("[data-pane] h2").nth(0 if missing else 1), view).to_be_attached()
    assert violations(page) == []


def test_weights_of_two_texts_differ_by_pythons_numbers(opened, box):
    path = "encoder.blocks.2.attention"
    page = opened.go(
        view="head", text=TEXT, compare="text", other=OTHER, attention="encoder", layer=2, head=1
    )
    wait_for_both(opened, "head")
    left, right = (box.explain(text) for text in (TEXT, OTHER))
    pieces = [[token.piece for token in one.source] for one in (left, right)]
    common = [(pieces[0].index(one), pieces[1].index(one)) for one in pieces[0] if one in pieces[1]]
    rows, columns = (torch.tensor([pair[side] for pair in common]) for side in (0, 1))
    first, second = (one[f"{path}.weights"][1] for one in (left, right))
    expected = second[columns][:, columns] - first[rows][:, rows]
    assert largest(page) == pytest.approx(float(expected.abs().max()), abs=6e-5)
    assert (
        f"{len(common)} tokens of the source are in both"
        in page.locator("[aria-label=Difference]").inner_text()
    )
    assert sides(page) == [TEXT, OTHER]
    expect(page.get_by_role("button", name="SVG")).to_have_count(2)


def test_losses_of_a_reference_equal_those_of_python(opened, box):
    page = opened.go(view="cross", text=TEXT, compare="target", other=REFERENCE)
    wait_for_both(opened, "cross")
    page.wait_for_selector("[data-side=right] [data-sum]")
    score = box.score(TEXT, REFERENCE)
    assert losses(page, "right") == pytest.approx([-one for one in score.log_probs], abs=1e-3)
    total = page.locator("[data-side=right] [data-sum]").inner_text()
    assert number(total) == pytest.approx(-score.sum_log_prob, abs=1e-3)
    own = box.explain(TEXT)
    shown = [-one.log_prob for one in own.target if one.log_prob is not None]
    assert losses(page, "left") == pytest.approx(shown, abs=1e-3)
    alone = page.locator("[data-side=right] .alone > span:first-child").all_inner_texts()
    assert "".join(alone) == "zugemacht"


def test_the_losses_of_two_prompts_equal_those_of_python(opened):
    gpt, texts = load("shakespeare"), ("ROMEO: I will", "ROMEO: I will not go")
    page = opened.go(view="logits", model="shakespeare", text=texts[0], compare="text", other=texts[1])
    wait_for_both(opened, "logits")
    page.wait_for_selector("[data-side=right] [data-sum]")
    for side, text in zip(("left", "right"), texts, strict=True):
        expected = [-one for one in gpt.score(text).log_probs]
        assert losses(page, side) == pytest.approx(expected, abs=1e-3)


def test_probabilities_before_and_after_an_edit_equal_python(opened, box):
    page = opened.go(view="logits", text=TEXT, compare="edits", edits=EDITS, position=1)
    wait_for_both(opened, "logits")
    assert sides(page) == ["before the edits", "after the edits"]
    before = box.explain(TEXT)
    with intervene(box.model, {f"{MUTED[0]}.head_output": Mute(MUTED[1])}):
        after = box.explain(TEXT)
    change = after["logits"][1].softmax(-1) - before["logits"][1].softmax(-1)
    most = change.abs().max()
    page.wait_for_selector("[data-change]")
    shown = page.locator("[data-change]").first.inner_text().replace("−", "-").removesuffix(" %")
    assert abs(float(shown)) / 100 == pytest.approx(float(most), rel=0.06)
    opened.turn("heads")
    wait_for_both(opened, "heads")
    # Heads before the edit are the same, later ones are not.
    weights = [
        torch.stack([one[f"encoder.blocks.{layer}.attention.weights"] for layer in range(8)])
        for one in (before, after)
    ]
    half = (weights[1] - weights[0]).abs().sum(-1).mean(-1) / 2
    assert largest(page) == pytest.approx(float(half.max()), abs=6e-5)
    page.locator("[data-pane=right] .head >> text=muted").first.wait_for()
    assert page.locator("[data-pane=left] .head >> text=muted").count() == 0


def test_streams_of_two_models_differ_by_pythons_numbers(opened, box):
    page = opened.go(view="residual", text=TEXT, compare="model", other="en-fr")
    wait_for_both(opened, "residual")
    other = load("en-fr").explain(TEXT)
    own, most = box.explain(TEXT), 0.0
    for layer in range(8):
        name = next(
            one for one in own.trace if re.search(rf"encoder\.blocks\.{layer}\.feedforward.*stream", one)
        )
        # The first token is the tag of the language.
        left, right = own[name][1:], other[name][1:]
        most = max(most, float(((right - left).norm(dim=-1) / left.norm(dim=-1)).max()))
    assert largest(page) == pytest.approx(most, rel=1e-3)


def test_the_comparison_is_in_the_url_and_in_the_history(opened):
    page = opened.go(view="head", text=TEXT)
    page.get_by_role("button", name="another text").click()
    assert page.locator("[data-compare]").inner_text() == "Type a text to compare with."
    page.get_by_label("the other text").fill(OTHER)
    page.get_by_role("button", name="Compare", exact=True).click()
    wait_for_both(opened, "head")
    assert "compare=text" in page.url
    page.reload()
    wait_for_both(opened, "head")
    assert sides(page) == [TEXT, OTHER]
    page.get_by_role("button", name="nothing", exact=True).click()
    page.wait_for_selector("[data-pane]", state="detached")
    page.go_back()
    wait_for_both(opened, "head")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.wait_for_selector("#lesson")
    assert page.locator("[data-pane]").count() == 0


def test_only_positions_of_both_texts_can_be_chosen(opened):
    page = opened.go(view="head", text=OTHER, compare="text", other="Go.", query=6, key=6)
    wait_for_both(opened, "head")
    expect(page.get_by_text("You can choose the positions, layers and heads that both have.")).to_have_count(
        1
    )
    expect(page.locator("[data-pane=right] .lines .heads")).to_have_count(1)
    assert page.locator("[role=alert]").count() == 0
    opened.turn("tokens")
    page.locator("[data-pane=left] .token").nth(5).click()
    opened.wait_until_idle("tokens")
    assert page.locator("[role=alert]").count() == 0


@pytest.mark.parametrize(
    ("attention", "line"),
    [
        ("encoder.blocks.7.attention", "there is no attention 'encoder.blocks.7.attention'"),
        ("decoder.blocks.2.attention", "there is no head 3; heads are 0 to 0"),
    ],
)
def test_an_edit_that_the_other_model_lacks_is_reported_in_one_line(opened, attention, line):
    edits = json.dumps([{"kind": "mute", "attention": attention, "heads": [3]}])
    page = opened.go(view="tokens", text=TEXT, compare="model", other="deep", edits=edits)
    wait_for_both(opened, "tokens")
    status = page.locator("[data-compare]").inner_text()
    assert status.startswith(f"The edits are not in deep: {line}")
    assert "\n" not in status
    assert page.locator("[role=alert]").count() == 0


def test_models_of_different_kinds_show_the_views_that_they_have(opened):
    page = opened.go(view="cross", text=TEXT, compare="model", other="shakespeare")
    wait_for_both(opened, "cross")
    assert (
        "shakespeare (gpt) has no view “Cross-attention” here."
        in page.locator("[data-pane=right]").inner_text()
    )
    assert page.locator("[data-largest]").count() == 0
    opened.turn("embedding")
    wait_for_both(opened, "embedding")
    opened.turn("logits")
    wait_for_both(opened, "logits")
    assert page.locator("[role=alert]").count() == 0, opened.alert()


def test_characters_of_another_script_are_marked(opened, box):
    target = "Я закрыл окна."
    page = opened.go(view="tokens", text=TEXT, compare="target", other=target)
    wait_for_both(opened, "tokens")
    page.wait_for_selector("[data-side=right] [data-sum]")
    expected = [-one for one in box.score(TEXT, target).log_probs]
    assert losses(page, "right") == pytest.approx(expected, abs=2e-3)
    assert "bytes of characters outside the vocabulary" in page.locator("[data-side=right]").inner_text()
    expect(page.locator("[data-side=right] .odd").nth(10)).to_be_attached()
    # Words that the vocabulary lacks are <unk> in a model without byte fallback.
    page = opened.go(
        view="tokens", model="long", text="word1 word2", target="word1", compare="target", other="Я"
    )
    wait_for_both(opened, "tokens")
    assert "1 token not in the vocabulary, marked ⚠" in page.locator("[data-side=right]").inner_text()


@pytest.mark.parametrize(
    ("selection", "line"),
    [
        ({"compare": "text"}, "Type a text to compare with."),
        ({"compare": "target", "other": "  "}, "Type a reference translation to compare with."),
        ({"compare": "edits"}, "There are no edits yet. Mute a head or force a token, then compare."),
        ({"compare": "model"}, "Choose a model to compare with."),
        ({"compare": "model", "other": "someone"}, "model: 'someone' is not one of"),
        ({"compare": "target", "other": "x", "model": "writer"}, "writer does not translate."),
    ],
)
def test_what_is_missing_is_said_in_one_line(opened, selection, line):
    page = opened.go(view="head", text=TEXT, **selection)
    page.locator("[data-compare]").wait_for()
    assert page.locator("[data-compare]").inner_text().startswith(line)
    assert page.locator("[data-pane]").count() == 0
    expect(page.locator("[data-view=head] h2")).to_have_count(1)


def test_an_unknown_kind_of_comparison_is_ignored(opened):
    page = opened.go(view="head", text=TEXT, compare="nonsense", other="x")
    assert page.locator("[data-pane]").count() == 0
    assert page.locator("[role=alert]").count() == 0


def test_the_other_trace_cannot_be_edited(opened):
    page = opened.go(view="tokens", text=TEXT, compare="text", other=OTHER)
    wait_for_both(opened, "tokens")
    assert page.locator("[data-pane=left] textarea").is_editable()
    assert not page.locator("[data-pane=right] textarea").is_editable()
    opened.turn("logits")
    wait_for_both(opened, "logits")
    expect(page.locator("[data-pane=left] .bars button").first).to_be_attached()
    assert page.locator("[data-pane=right] .bars button").count() == 0


def test_long_texts_are_compared_in_time(opened):
    other = LONG.replace("word7 ", "word8 ")
    page = opened.go(view="head", model="long", text=LONG, target=LONG, compare="text", other=other)
    for view in ("head", "heads", "residual", "logits"):
        started = time.perf_counter()
        opened.turn(view)
        wait_for_both(opened, view)
        # Far above the design's budgets, because test machines are busy.
        assert time.perf_counter() - started < 10, view
        assert page.locator("[role=alert]").count() == 0, (view, opened.alert())


def test_a_comparison_fills_the_screen_of_a_presenter(opened):
    page = opened.go(view="head", text=TEXT, compare="text", other=OTHER, present=1)
    wait_for_both(opened, "head")
    boxes = [page.locator(f"[data-pane={side}]").bounding_box() for side in ("left", "right")]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert min(box["width"] for box in boxes) > 550
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_comparison_works_with_the_keyboard_alone(opened):
    page = opened.go(view="head", text=TEXT)
    reach(page, "another text")
    page.keyboard.press("Enter")
    reach(page, "the other text")
    page.keyboard.type(OTHER)
    page.keyboard.press("Enter")
    wait_for_both(opened, "head")
    reach(page, "difference of weights")


def test_a_comparison_fits_a_phone(phone):
    page = phone.go(view="tokens", text=TEXT, compare="text", other=OTHER)
    for view in VIEWS:
        phone.turn(view)
        wait_for_both(phone, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
    assert violations(page) == []

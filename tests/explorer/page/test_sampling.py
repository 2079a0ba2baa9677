"""A language model predicts at once, and each sampled token comes with its reason; numbers equal Python's."""

import pytest
import torch

from clearhead.tasks.load import load

from .test_access import reach
from .test_numbers import number
from .test_views import violations

TEXT = "ROMEO:\nI will"
OPTIONS = {"temperature": 0.9, "top_k": 12, "top_p": 0.95, "min_p": 0.02, "seed": 5}


@pytest.fixture(scope="module")
def gpt():
    return load("shakespeare")


def share(text: str) -> float:
    return float(text.removesuffix(" %").removeprefix("<")) / 100


@pytest.mark.parametrize(("door", "name"), [("learn", "sentences"), ("inspect", "shakespeare")])
def test_the_page_opens_with_the_most_probable_next_tokens(opened, door, name):
    gpt = load(name)
    page = opened.go(door, model=name)
    text = page.locator("#text").input_value()
    best = gpt.explain(text)["logits"][-1].softmax(-1).topk(6)
    page.wait_for_selector("[aria-label='most probable next tokens'] button")
    chips = page.get_by_role("group", name="most probable next tokens").get_by_role("button")
    shown = [share(one) for one in chips.locator(".number").all_inner_texts()]
    expected = [one for one in best.values.tolist() if one >= 0.001] or best.values.tolist()[:1]
    assert shown == pytest.approx(expected, rel=0.06)
    piece = gpt.tokenizer.pieces([int(best.indices[0])])[0]
    chips.first.click()
    longer = text + piece.replace("▁", " ").replace("↵", "\n")
    page.wait_for_function("text => document.getElementById('text').value === text", arg=longer)


def test_next_tokens_of_the_model_of_sentences_are_words(opened):
    page = opened.go(view="tokens", model="sentences", text="She opened the")
    chips = page.get_by_role("group", name="most probable next tokens").get_by_role("button")
    assert chips.locator("b").all_inner_texts()[:3] == ["door", "box", "window"]
    tokens = page.get_by_role("group", name="tokens of the text").locator(".token > span").all_inner_texts()
    assert tokens == ["<s>", "She", "opened", "the"]


def test_sliders_change_the_distribution_but_not_the_loss(opened, gpt):
    page = opened.go(view="logits", model="shakespeare", text=TEXT, position=3)
    loss = page.locator("#loss").inner_text()
    explanation = gpt.explain(TEXT)
    own = -explanation["logits"][3].log_softmax(-1)[explanation.target[3].next]
    assert number(loss) == pytest.approx(float(own), abs=1e-3)
    assert page.locator("#cut").count() == 0
    page.get_by_label("temperature").fill("1.5")
    page.get_by_label("min-p").fill("0.2")
    warm = (explanation["logits"][3] / 1.5).softmax(-1)
    kept = warm >= 0.2 * warm.max()
    page.get_by_text(f"the filters keep {int(kept.sum())} token").wait_for()
    assert page.locator(".bars .cut").inner_text() == "cut by min-p"
    bars = [share(one) for one in page.locator(".bars .number:not(.logit)").all_inner_texts()]
    assert bars[:5] == pytest.approx(warm.topk(5).values.tolist(), rel=0.06)
    widths = page.locator(".bars .sampled").evaluate_all("all => all.map(one => parseFloat(one.style.width))")
    assert widths[:5] == pytest.approx(
        [100 * float(one) for one in (warm * kept / (warm * kept).sum()).topk(5).values], abs=0.01
    )
    assert page.locator("#loss").inner_text() == loss
    page.wait_for_function(
        "() => ['show_temperature=1.5', 'show_min_p=0.2'].every(one => location.hash.includes(one))"
    )


def test_sampled_tokens_and_their_reasons_equal_python(opened, gpt):
    page = opened.go(view="generate", model="shakespeare", text=TEXT, **OPTIONS)
    whole = gpt.generate(TEXT, tokens=6, **OPTIONS)
    numbers = torch.rand(6, generator=torch.Generator().manual_seed(OPTIONS["seed"])).tolist()
    button = page.get_by_role("button", name="Next token", exact=True)
    for step in range(6):
        page.wait_for_selector("button.main:enabled >> text=Next token")
        assert f"Token {step + 1} of seed 5 has the random number" in page.locator("#why").inner_text()
        assert number(page.locator("#why b.number").inner_text()) == pytest.approx(numbers[step], abs=6e-5)
        button.click()
        page.wait_for_selector(f"[data-step='{step}']")
    rows = page.locator("[data-step]")
    shown = [share(one) for one in rows.locator("td:nth-of-type(2)").all_inner_texts()]
    assert shown == pytest.approx([float(torch.tensor(one).exp()) for one in whole.log_probs], rel=0.06)
    for why, drawn in zip(rows.locator(".why").all_inner_texts(), numbers, strict=True):
        low, high = why.split(" is in ")[1].split("–")
        assert float(low) - 1e-4 <= drawn <= float(high) + 1e-4
    page.get_by_text(f"as text: {TEXT}{whole.text}").wait_for()
    page.get_by_role("button", name="Look inside this text").click()
    opened.wait_until_idle("logits")
    assert page.locator("#output").inner_text() == whole.text
    assert f"min_p={OPTIONS['min_p']}" in page.locator("#python").text_content()


def test_the_reader_may_take_another_token(opened):
    page = opened.go(view="generate", model="shakespeare", text=TEXT)
    page.locator(".bars .piece button").nth(3).click()
    page.wait_for_selector("[data-step='0']")
    assert page.locator("[data-step='0'] .why").inner_text() == "you chose it"
    assert page.locator("[data-step='0'] td").first.inner_text() == "4"
    # Python would write another text.
    assert page.get_by_role("button", name="Look inside this text").count() == 0
    page.get_by_role("button", name="Start over").click()
    page.wait_for_selector("[data-step='0']", state="detached")


def test_a_model_can_be_sampled_with_the_keyboard_alone(opened):
    page = opened.go(view="generate", model="shakespeare", text=TEXT)
    reach(page, "Next token")
    if page.evaluate("document.activeElement.closest('nav')"):
        reach(page, "Next token")  # the view of that name comes first
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-step='0']")
    reach(page, "temperature")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('temperature=0.15')")
    assert page.get_by_label("min-p").is_visible()


def test_sampling_is_accessible_and_fits_a_phone(opened, phone):
    selection = {"view": "generate", "model": "shakespeare", "text": TEXT, **OPTIONS}
    for one in (opened, phone):
        page = one.go(**selection)
        page.get_by_role("button", name="Next token", exact=True).last.click()
        page.wait_for_selector("[data-step='0']")
        assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

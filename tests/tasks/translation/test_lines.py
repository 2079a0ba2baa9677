"""Lines keep their items, and only lines that lost one are translated again."""

import pytest

import clearhead
from clearhead import TranslateOptions
from clearhead.errors import TextError
from clearhead.tasks.translation import lines
from clearhead.tasks.translation.documents import DocumentTranslator
from clearhead.tasks.translation.lines import with_items
from clearhead.tasks.translation.search import Translation
from clearhead.tasks.zoo import BUILT_IN

LINES = [
    "Ticket #4711 is open.",
    "The shop is 500 m away.",
    "It costs $12.50 at https://example.org/a?b=1 😀",
    "Call {name} at 10:30, or write to tom@example.org.",
    "I am tired.",
    "",
    "THIS IS NOT A TOY.",
]
ITEMS = [
    ["#4711"],
    ["500 m"],
    ["$12.50", "https://example.org/a?b=1", "😀"],
    ["{name}", "10:30", "tom@example.org"],
]


@pytest.fixture(scope="module")
def model():
    if not BUILT_IN["en-de-fr"].exists():
        pytest.skip("no built-in model")
    return clearhead.load("en-de")


def kept(model, translations, batch_size=512) -> list[Translation]:
    return list(with_items(translations, model, "de", TranslateOptions(), batch_size))


def test_items_are_kept_and_other_lines_are_those_of_the_model(model):
    own = model.translate(LINES)
    found = kept(model, own)
    for items, one in zip(ITEMS, found, strict=False):
        assert all(item in one.text for item in items), one.text
    assert found[4:6] == own[4:6]
    assert found[6].text.isupper()
    assert [one.score for one in found] == [one.score for one in own]


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("The value is -5.", "-5"),
        ("The meeting is at 7:30 p.m.", "7:30 p.m."),
        ("The order number is AB-1234/5.", "AB-1234/5"),
        ("We live at 12a Main Street.", "12a"),
        ("It takes 2h.", "2h"),
        ("Call (555) 123-4567.", "(555) 123-4567"),
    ],
)
def test_numbers_keep_a_minus_letters_and_halves_of_the_day(model, line, item):
    [found] = kept(model, model.translate([line]))
    assert found.text.count(item) == 1
    assert ".." not in found.text


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_batch_size_changes_nothing(model, batch_size):
    own = model.translate(LINES)
    assert [one.text for one in kept(model, own, batch_size)] == [one.text for one in kept(model, own)]


def test_only_lines_that_lost_something_are_translated_again(model, monkeypatch):
    again = []

    def record(self, texts):
        again.extend(texts)
        return original(self, texts)

    original = DocumentTranslator.lines
    monkeypatch.setattr(DocumentTranslator, "lines", record)
    given = [
        Translation("Room 12 is free.", "Zimmer 12 ist frei.", -1.0),
        Translation("Room 12 is free.", "Zimmer 13 ist frei.", -1.0),
        Translation("I am *very* tired.", "Ich bin *sehr* müde.", -1.0),
        Translation("I am *very* tired.", "Ich bin sehr müde.", -1.0),
        Translation("Ünïcode, “quoted” – and it's fine!", "Gut!", -1.0),
        Translation("x" * 900 + " 7", "", 0.0, too_long=True),
    ]
    found = kept(model, given)
    assert again == ["Room 12 is free.", "I am *very* tired."]
    assert [one.text for one in found][::2] == [one.text for one in given][::2]
    assert "12" in found[1].text


def test_lines_before_an_error_are_not_lost(model):
    def broken():
        yield Translation("Room 12 is free.", "Zimmer ist frei.", -1.0)
        raise TextError("line 2: is broken")

    found = with_items(broken(), model, "de", TranslateOptions(), 512)
    assert "12" in next(found).text
    with pytest.raises(TextError, match="line 2"):
        next(found)


@pytest.mark.parametrize("text", ["a" * 100_000, "a " * 50_000 + "1", "-" * 100_000])
def test_long_lines_are_checked_in_linear_time(text):
    lines._needs_care(Translation(text, "", 0.0))

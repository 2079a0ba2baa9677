"""Items and marks in a paragraph."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.inline import MARKS, Role, find_parts, inline_sentences, take_apart

ITEMS = [
    ("See https://example.org/a?b=1.", ["https://example.org/a?b=1"]),
    ("See (www.example.org/x), please.", ["www.example.org/x"]),
    ("Go to example.com now.", ["example.com"]),
    ("Write to anna.b+c@mail.example.com.", ["anna.b+c@mail.example.com"]),
    ("Run `make test` or ``a ` b``.", ["`make test`", "``a ` b``"]),
    ("Hello {name}, {0} and {{ user.name }}, ${count}.", ["{name}", "{0}", "{{ user.name }}", "${count}"]),
    ("%s has %d, %(n)s, %1$s and %.2f.", ["%s", "%d", "%(n)s", "%1$s", "%.2f"]),
    ("It costs $1,234.50 or 1.234,50 €.", ["$1,234.50", "1.234,50 €"]),
    ("On 12/05/2023, 2023-05-12 and 12.05.2023.", ["12/05/2023", "2023-05-12", "12.05.2023"]),
    ("At 10:30:15 it was 50% and 3.5 °.", ["10:30:15", "50%", "3.5 °"]),
    ("Call +49 30 1234567.", ["+49 30 1234567"]),
    ("Use snake_case, foo.bar(), --to and $HOME.", ["snake_case", "foo.bar()", "--to", "$HOME"]),
    ("In /usr/bin/x, ./a/b and README.md.", ["/usr/bin/x", "./a/b", "README.md"]),
    ("Version v1.2.3 or 1.2.3, A4, COVID-19.", ["v1.2.3", "1.2.3", "A4", "COVID-19"]),
    ("Press <kbd>Ctrl</kbd> &nbsp; now.", ["<kbd>Ctrl</kbd>", "&nbsp;"]),
    (
        "Press <kbd>Ctrl</kbd>+<kbd>C</kbd> for H<sub>2</sub>O.",
        ["<kbd>Ctrl</kbd>+<kbd>C</kbd>", "H<sub>2</sub>O"],
    ),
    ("It is 12.5 km, 3 kg, open 9:00-17:30.", ["12.5 km", "3 kg", "9:00-17:30"]),
    ("It was -7 °C and 3.5 °C.", ["-7 °C", "3.5 °C"]),
    ("10 000 people and 123456 birds.", ["10 000", "123456"]),
    ("Elle coûte 1 250,00 €, soit € 1 250,00.", ["1 250,00 €", "€ 1 250,00"]),
    (
        "Il y a 12 345,67 km², -1\u202f250\u202f% et 2 000, 3 000.",
        ["12 345,67 km²", "-1\u202f250\u202f%", "2 000", "3 000"],
    ),
    ("Le film dure 2 h 15 min, le 3D 1h05min.", ["2 h 15 min", "3D", "1h05min"]),
    ("Set $HOME/data/x.y for a 12B model in $HOME/data.", ["$HOME/data/x.y", "12B", "$HOME/data"]),
    ("Between -10 and -5, not 3-5 or 3 - 5; +3 and −7.", ["-10", "-5", "3-5", "+3", "−7"]),
    ("At 7:30 p.m. or 11 PM, 5pm. At 5 p.m. Then go.", ["7:30 p.m.", "11 PM", "5pm", "5 p.m."]),
    ("Der Zug steht um 11 am Bahnhof.", []),
    ("AB-1234/5, 12a, 5b, 4711-A, 12-B, M6x20.", ["AB-1234/5", "12a", "5b", "4711-A", "12-B", "M6x20"]),
    ("The 2nd, 3rd, le 2e, the 90s, 20-year-old, 5-jährig.", []),
    (
        "Call (555) 123-4567, 0049 (0)30 123456 or 030 / 123 45 67.",
        ["(555) 123-4567", "0049 (0)30 123456", "030 / 123 45 67"],
    ),
    ("950,- € or $5/kg for 10 x 20 cm, 3×4 and 1:30 h.", ["950,- €", "$5/kg", "10 x 20 cm", "3×4", "1:30 h"]),
    ("Use -v, y a-t-il, a - b.", ["-v"]),
    ("He and/or she didn't; she's 100 % sure (not).", ["100 %"]),
]


@pytest.mark.parametrize(("text", "expected"), ITEMS)
def test_items_are_found(text, expected):
    assert [part.text for part in find_parts(text) if part.role is Role.ITEM] == expected


@pytest.mark.parametrize("emoji", ["😀", "🇩🇪", "👨‍👩‍👧", "👍🏽", "❤️", "1️⃣", "🔥🔥", "→", "™"])
def test_an_emoji_is_one_mark(emoji):
    assert [part.text for part in find_parts(f"a {emoji} b")] == [emoji]


def test_short_numbers_stay_visible():
    parts = find_parts("At 10:30 I had 3 dogs, the 2nd of them from 1990.")
    assert [(part.role, part.text) for part in parts] == [
        (Role.NUMBER, n) for n in ("10:30", "3", "2", "1990")
    ]


def test_the_full_stop_of_a_time_may_end_a_sentence():
    text = "The bus leaves at 9 p.m. The train leaves at 5 p.m. Monday. It is No. 12a."
    spans, parts = inline_sentences(text, "en")
    assert [text[start:end] for start, end in spans] == [
        "The bus leaves at 9 p.m.",
        "The train leaves at 5 p.m. Monday.",
        "It is No. 12a.",
    ]
    assert [[part.text for part in some] for some in parts] == [["9 p.m."], ["5 p.m."], ["12a"]]


def test_french_times_stay_visible():
    parts = find_parts("Ouvert de 9 h à 12h30, puis de 14\u202fh\u202f15 à 6 heures.")
    assert [(part.role, part.text) for part in parts] == [
        (Role.NUMBER, n) for n in ("9 h", "12h30", "14\u202fh\u202f15", "6")
    ]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a **b c** d", [("**", "**")]),
        ("a *b* and **c *d* e**", [("*", "*"), ("**", "**"), ("*", "*")]),
        ("[a b](http://x.org/(y)) c", [("[", "](http://x.org/(y))")]),
        ("![a](b.png) and [c][d]", [("![", "](b.png)"), ("[", "][d]")]),
        ("<b>a</b> <i class='x'>b</i>", [("<b>", "</b>"), ("<i class='x'>", "</i>")]),
        ("2 * 3 * 4 is [24]", []),
        ("a ~~b~~", [("~~", "~~")]),
    ],
)
def test_marks_are_paired(text, pairs):
    parts = find_parts(text)
    by_start = {part.start: part for part in parts}
    found = [(one.text, by_start[one.partner].text) for one in parts if one.role is Role.OPEN and one.partner]
    assert found == pairs


def test_marks_around_a_sentence_are_taken_off():
    [core] = cores("😀 **Hello there.** <br>")
    assert (core.prefix, core.text, core.suffix) == ("😀 **", "Hello there.", "** <br>")


def test_marks_within_a_sentence_leave_single_spaces():
    [core] = cores("I like it 😀 very **much**.")
    assert core.text == "I like it very much."
    assert [(mark.part.text, mark.position) for mark in core.marks] == [("😀", 10), ("**", 15), ("**", 19)]


def test_no_sentence_ends_inside_an_item():
    text = "Open `a. B` at http://x.org/A.?B. Then {A. B} ends. 😀 Done."
    assert sentences(text) == ["Open `a. B` at http://x.org/A.?B.", "Then {A. B} ends. 😀", "Done."]


@given(st.text(alphabet="ab .*_`[](){}<>/=\\%1$@😀\ue000-~|&;\"'é", max_size=60))
def test_nothing_is_lost_by_taking_sentences_apart(text):
    for core, sentence in zip(cores(text), sentences(text), strict=True):
        kept = core.prefix + core.text + core.suffix + "".join(mark.part.text for mark in core.marks)
        assert sorted(kept.replace(" ", "")) == sorted(sentence.replace(" ", ""))
        for item in core.items:
            assert item.role not in MARKS
            assert core.text[item.start : item.end] == item.text


@pytest.mark.parametrize(
    "unit",
    [
        "a_",
        "<",
        "`",
        "[",
        "1.",
        "/a",
        "a.",
        "*a",
        "{",
        "a@",
        "%(",
        "--",
        "http://",
        "[^",
        "](",
        "<a",
        "1",
        "1,",
    ],
)
def test_time_is_linear_in_the_length(unit):
    started = time.perf_counter()
    find_parts(unit * 15_000)
    assert time.perf_counter() - started < 5


def sentences(text):
    return [text[start:end] for start, end in inline_sentences(text, "en")[0]]


def cores(text):
    spans, parts = inline_sentences(text, "en")
    return [take_apart(text[start:end], own) for (start, end), own in zip(spans, parts, strict=True)]

"""Documents as blocks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.blocks import Prose, parse, source, split_lines

GUIDE = Path(__file__).parent / "documents" / "guide.md"


def prose(text, format="markdown"):
    return [one.text for block in parse(split_lines(text), format) for one in block if isinstance(one, Prose)]


def unchanged(text, format="markdown"):
    return "".join(source(block) for block in parse(split_lines(text), format))


def rendered(text, translate, format="markdown"):
    return "".join(
        one if isinstance(one, str) else one.render(translate(one.text))
        for block in parse(split_lines(text), format)
        for one in block
    )


def test_a_document_is_the_sum_of_its_pieces():
    text = GUIDE.read_text()
    assert unchanged(text) == text


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_byte_order_mark_and_a_missing_last_line_end_are_kept(newline, mark):
    text = mark + GUIDE.read_text().rstrip("\n").replace("\n", newline)
    assert unchanged(text) == text


@given(st.text(alphabet="a -*#>|`~1.)\n\r\t[]:=+_<!\ufeff😀é", max_size=120))
@pytest.mark.parametrize("format", ["markdown", "text"])
def test_only_spaces_at_wrapped_lines_can_change(format, text):
    assert unchanged(text, format).split() == text.split()
    short = all(len(line) < 40 for line in split_lines(text))
    assert not short or unchanged(text, format) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A title #\n", ["A title"]),
        ("- a dog\n* a cat\n2. a bird\n3) a fish\n", ["a dog", "a cat", "a bird", "a fish"]),
        ("- [ ] a task\n", ["a task"]),
        ("> a quote\n> > within\n", ["a quote", "within"]),
        ("| a | b c |\n|---|:-:|\n| `x | y` | d |\n", ["a", "b c", "`x | y`", "d"]),
        ("a | b\n--- | ---\nc | d\n\ne\n", ["a", "b", "c", "d", "e"]),
        ("```\ncode\n```\ntext\n", ["text"]),
        ("> ```\n> code\n> ```\n> text\n", ["text"]),
        ("~~~ py\n```\n~~~\ntext\n", ["text"]),
        ("---\na: b\n---\ntext\n", ["text"]),
        ("+++\na = 1\n+++\ntext\n", ["text"]),
        ("---\n\ntext\n", ["text"]),
        ("text\n\n    code\n    more code\n", ["text"]),
        ("- item\n\n    more of it\n", ["item", "more of it"]),
        ("[id]: http://x.org\n[^1]: a note\n", ["a note"]),
        ("<div>\ntext\n</div>\n<!-- a\nb -->\n<pre>\ncode\n</pre>\n", ["text"]),
        ("Title\n=====\n***\n", ["Title"]),
        ("$$\nx = y\n$$\n", []),
        ("one\\\ntwo  \nthree\n", ["one\\", "two", "three"]),
    ],
)
def test_only_prose_is_translated(text, expected):
    assert prose(text) == expected
    assert unchanged(text) == text


@pytest.mark.parametrize("between", ["```\nx\n```", "<!-- x -->"])
def test_what_is_not_indented_ends_a_list_and_code_may_follow(between):
    assert prose(f"- Read.\n\n{between}\n\n    make all\n") == ["Read."]
    indented = "\n".join(f"  {line}" for line in between.splitlines())
    assert prose(f"- Read.\n\n{indented}\n\n    More text.\n") == ["Read.", "More text."]


def test_plain_text_has_no_indented_code():
    assert prose("A letter.\n\n    Dear Anna,\n", "text") == ["A letter.", "Dear Anna,"]


WRAPPED = """- The first line of this paragraph is as long as the second one is,
  because it was wrapped by an editor, which also did so to all its other
  lines, but the last.
"""


def test_wrapped_lines_are_joined_and_wrapped_again_at_the_same_width():
    assert len(prose(WRAPPED)) == 1
    longer = rendered(WRAPPED, lambda text: text.replace("line", "very long line"))
    assert longer.startswith("- The first very long line")
    assert all(line.startswith("  ") for line in longer.splitlines()[1:])
    width = max(map(len, WRAPPED.splitlines()))
    assert max(map(len, longer.splitlines())) <= width
    assert rendered(WRAPPED, str) == WRAPPED


def test_verses_addresses_and_a_sentence_per_line_stay_lines():
    for text in (
        "Roses are red,\nViolets are blue.\n",
        "Anna Example\n17 Lake Street\nWaterford\n",
        "This is a sentence that has its own line in the file.\nSo has this one.\nAnd this.\n",
    ):
        assert prose(text) == text.splitlines()


def test_wrapping_never_starts_a_line_with_a_marker():
    words = " ".join(f"- # > 1. word{number}" for number in range(60))
    text = rendered(WRAPPED, lambda _: words)
    assert text.split() == ["-", *words.split()]
    for line in text.splitlines()[1:]:
        assert line.split()[0].startswith("word")

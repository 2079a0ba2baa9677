"""A document of 200 lines through the built-in translator: its structure stays, and nothing is lost."""

from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import clearhead
from clearhead.tasks.translation.options import TranslateOptions
from clearhead.text.blocks import Prose, parse, split_lines
from clearhead.text.inline import MARKS, Role, find_parts

GUIDE = Path(__file__).parents[1] / "text" / "documents" / "guide.md"
GREEDY = TranslateOptions(beam=1)
VERBATIM = ("fence", "code_block", "html_block", "hr")


def blocks(text):
    """What another parser of Markdown sees: the block structure, and of each block what is in its line."""
    seen = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        content = token.content if token.type in VERBATIM else ""
        inline = Counter(
            (child.type, child.markup, str(child.attrs.get("href")), str(child.attrs.get("src")))
            for child in token.children or []
            if child.type not in ("text", "softbreak")
        )
        seen.append((token.type, token.tag, token.markup, token.info, content, inline))
    return seen


def items(text):
    """All parts of the prose that must not change."""
    prose = [one.text for block in parse(split_lines(text)) for one in block if isinstance(one, Prose)]
    return Counter(part.text for one in prose for part in find_parts(one))


@pytest.fixture(scope="module")
def translators():
    return {name: clearhead.load(name) for name in ("en-de", "en-fr")}


@pytest.mark.parametrize("name", ["en-de", "en-fr"])
def test_a_document_keeps_its_structure_and_loses_nothing(translators, name):
    text = GUIDE.read_text()
    assert len(text.splitlines()) == 200
    document = translators[name].translate_document(text, beam=1)
    assert blocks(document.text) == blocks(text)
    assert not document.lost
    assert not items(text) - items(document.text)
    assert str(document) == document.text != text
    assert [one.source for one in document.sentences][:2] == [
        "The lake house: a guide for guests",
        "Welcome to the lake house!",
    ]
    # Blank lines, front matter and code are where they were.
    assert document.text.startswith(text[: text.index("# The lake house")])
    assert document.text.count("\n\n") == text.count("\n\n")
    assert max(map(len, document.text.splitlines())) < 240


def test_items_are_exactly_as_often_as_in_the_source(translators):
    text = (
        "Pay $12.50 at https://x.example/a before 10:30, or write to a@b.example about {code} and `x y`. 😀\n"
    )
    document = translators["en-de"].translate_document(text)
    for part in find_parts(text):
        assert document.text.count(part.text) == 1, document.text
    visible = [part.text for part in find_parts(text) if part.role not in (Role.ITEM, *MARKS)]
    assert visible == ["10:30"]  # the model reads times of day and copies them


def test_capitals_are_translated_as_a_sentence(translators):
    plain, capitals = (
        translators["en-de"].translate_document(one).text
        for one in ("The dog is in the garden.", "THE DOG IS IN THE GARDEN.")
    )
    assert capitals == plain.upper()


def test_the_result_does_not_depend_on_the_parts_in_which_a_document_is_translated(translators):
    from clearhead.tasks.translation.documents import DocumentTranslator

    text = "".join(GUIDE.read_text().splitlines(keepends=True)[:24])
    whole = DocumentTranslator(translators["en-de"], options=GREEDY).translate(text).sentences
    parts = DocumentTranslator(translators["en-de"], options=GREEDY).stream(split_lines(text), chunk=8)
    sentences = [one for part in parts for one in part.sentences]
    assert [one.source for one in sentences] == [one.source for one in whole]
    assert [one.confidence for one in sentences] == pytest.approx([one.confidence for one in whole], abs=1e-4)


def test_doubtful_sentences_are_marked(translators):
    text = "The cat is black.\n\nColourless green ideas sleep furiously in zzyzx qwert.\n"
    document = translators["en-de"].translate_document(text, mark=0.5)
    sure, doubtful = document.sentences
    assert sure.confidence > 0.7 > 0.5 > doubtful.confidence
    assert document.text == f"{sure.text}\n\n⟪{doubtful.text}⟫\n"


def test_the_source_language_is_recognised():
    model = clearhead.load("en-de-fr")
    document = model.translate_document(
        "Am 3. Oktober kommt er nicht. Das ist schade, aber wir sind da.", "en"
    )
    assert len(document.sentences) == 2


def test_text_from_right_to_left_and_other_scripts_keep_their_structure(translators):
    text = "# \u0633\u0644\u0627\u0645 \u200f2024\n\n- 今日は 12:30 に。\n\n> Привет, https://x.example!\n"
    document = translators["en-de"].translate_document(text)
    assert [one[:3] for one in blocks(document.text)] == [one[:3] for one in blocks(text)]
    for item in ("2024", "12:30", "https://x.example"):
        assert item in document.text


def test_a_marked_sentence_keeps_its_hard_break(translators):
    document = translators["en-de"].translate_document("The cat is black.\\\nThe dog sleeps.\n", mark=1.01)
    first, second = document.sentences
    assert document.text == f"⟪{first.text.removesuffix(chr(92))}⟫\\\n⟪{second.text}⟫\n"

"""Normalization gives texts that look the same the same characters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.normalize import NORMALIZER, normalize, without_surrogates


@pytest.mark.parametrize(
    "space", ["\u00a0", "\u202f", "\u2009", "\u3000", "\t", "\r\n", "\u2028", "\x1f", "  "]
)
def test_every_kind_of_whitespace_becomes_one_space(space: str):
    assert normalize(f"{space}9.15{space}Uhr{space}") == "9.15 Uhr"


@pytest.mark.parametrize(
    "character", ["\x00", "\x07", "\x1b", "\x7f", "\x9f", "\u00ad", "\u200b", "\u202e", "\ufeff"]
)
def test_invisible_characters_are_dropped(character: str):
    assert normalize(f"Wort{character}art") == "Wortart"


def test_composed_and_decomposed_spellings_become_the_same():
    assert normalize("Ma\u0308dchen") == normalize("M\u00e4dchen") == "M\u00e4dchen"


def test_zero_width_joiners_are_kept():
    assert normalize("می\u200cخواهم 👨\u200d👩\u200d👧") == "می\u200cخواهم 👨\u200d👩\u200d👧"


def test_lone_surrogates_are_dropped():
    assert normalize("a\ud83db") == without_surrogates("a\ud83db") == "ab"


def test_text_that_is_normalized_already_is_as_the_library_leaves_it():
    for character in map(chr, (*range(0xD800), *range(0xE000, 0x11_0000, 7))):
        text = f"é{character}\u0323a"
        assert normalize(text) == NORMALIZER.normalize_str(text)


@given(st.text(st.characters()))
def test_normalization_is_idempotent(text: str):
    once = normalize(text)
    assert normalize(once) == once


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_normalized_text_is_the_words_of_its_nfc_form(text: str):
    visible = "".join(
        char for char in text if unicodedata.category(char) not in ("Cc", "Cf") or char.isspace()
    )
    assert normalize(text) == " ".join(unicodedata.normalize("NFC", visible).split())

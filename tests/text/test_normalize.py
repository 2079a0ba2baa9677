"""Normalisation makes what looks the same the same."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.normalize import normalize, without_surrogates


@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u202f", "\u2009", "\u3000", "\t", "\r\n", "\u2028", "\x1f", "  "]
)
def test_every_kind_of_space_becomes_one_blank(blank: str):
    assert normalize(f"{blank}9.15{blank}Uhr{blank}") == "9.15 Uhr"


@pytest.mark.parametrize(
    "sign", ["\x00", "\x07", "\x1b", "\x7f", "\x9f", "\u00ad", "\u200b", "\u202e", "\ufeff"]
)
def test_what_cannot_be_seen_is_dropped(sign: str):
    assert normalize(f"Wort{sign}art") == "Wortart"


def test_composed_and_decomposed_spellings_become_the_same():
    assert normalize("Ma\u0308dchen") == normalize("M\u00e4dchen") == "M\u00e4dchen"


def test_joiners_that_carry_meaning_are_kept():
    assert normalize("می\u200cخواهم 👨\u200d👩\u200d👧") == "می\u200cخواهم 👨\u200d👩\u200d👧"


def test_half_characters_are_dropped():
    assert normalize("a\ud83db") == without_surrogates("a\ud83db") == "ab"


@given(st.text(st.characters()))
def test_normal_text_stays_as_it_is(text: str):
    once = normalize(text)
    assert normalize(once) == once


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_the_words_of_a_text_are_those_of_its_composed_form(text: str):
    visible = "".join(
        sign for sign in text if unicodedata.category(sign) not in ("Cc", "Cf") or sign.isspace()
    )
    assert normalize(text) == " ".join(unicodedata.normalize("NFC", visible).split())

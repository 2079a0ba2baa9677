"""Languages are known by their codes, and a wrong one brings a suggestion."""

import pytest

from clearhead.errors import TextError
from clearhead.text.languages import NAMES, check, tag


def test_a_tag_asks_for_the_language_to_write():
    assert tag("de") == "<2de>"


def test_names_are_found_by_code():
    assert (NAMES["de"], NAMES["gd"], NAMES["nb"]) == ("German", "Scottish Gaelic", "Norwegian Bokmål")
    assert len({code for code in NAMES if len(code) == 2}) > 180
    assert len(set(NAMES.values())) == len(NAMES)


def test_a_known_code_passes():
    assert check("fr") == "fr"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("german", "de"), ("Frensh", "fr"), ("EN", "en"), ("pt-BR", "pt"), ("zh_TW", "zh"), ("ger", "de")],
)
def test_a_wrong_code_brings_a_suggestion(said: str, meant: str):
    with pytest.raises(TextError) as error:
        check(said)
    assert str(error.value) == f"language {said!r} is unknown; did you mean {meant} ({NAMES[meant]})?"


def test_an_unlikely_code_brings_the_way_out():
    with pytest.raises(TextError, match="language 'xx' is unknown; use an ISO 639-1 code such as en or de"):
        tag("xx")

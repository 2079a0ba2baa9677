"""Languages are known by code, and a wrong code gets a closest_language."""

import pytest

from clearhead.errors import TextError
from clearhead.text.language_names import CODES_BY_OTHER_NAME, CODES_BY_THREE_LETTERS, fold_name
from clearhead.text.languages import NAMES, check_language, language_tag


def test_a_tag_selects_the_target_language():
    assert language_tag("de") == "<2de>"


def test_names_are_found_by_code():
    assert (NAMES["de"], NAMES["gd"], NAMES["nb"]) == ("German", "Scottish Gaelic", "Norwegian Bokmål")
    assert len({code for code in NAMES if len(code) == 2}) > 180
    assert len(set(NAMES.values())) == len(NAMES)


def test_a_known_code_passes():
    assert check_language("fr") == "fr"


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("german", "de"),
        ("Frensh", "fr"),
        ("EN", "en"),
        ("pt-BR", "pt"),
        ("zh_TW", "zh"),
        ("ger", "de"),
        ("deu", "de"),
        ("Français", "fr"),
    ],
)
def test_a_wrong_code_gets_a_suggestion(code: str, meant: str):
    with pytest.raises(TextError) as error:
        check_language(code)
    assert str(error.value) == f"language {code!r} is unknown; did you mean {meant} ({NAMES[meant]})?"


def test_a_code_like_no_other_gets_an_example():
    with pytest.raises(TextError, match="language 'xx' is unknown; use an ISO 639-1 code such as en or de"):
        language_tag("xx")


def test_other_spellings_are_those_of_known_languages_and_do_not_contradict_each_other():
    names = {fold_name(name): code for code, name in NAMES.items()} | {code: code for code in NAMES}
    for other, code in (CODES_BY_OTHER_NAME | CODES_BY_THREE_LETTERS).items():
        assert code in NAMES
        assert names.get(other, code) == code, other
    assert {code for code in NAMES if len(code) == 2} == {*CODES_BY_THREE_LETTERS.values()}
    assert not CODES_BY_THREE_LETTERS.keys() & CODES_BY_OTHER_NAME.keys()

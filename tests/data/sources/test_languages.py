"""The languages that a file itself names need not be given."""

import gzip
from pathlib import Path

import pytest

from clearhead.data.pair import Pair
from clearhead.data.sources.columns import language_of, named_languages
from clearhead.data.sources.corpus import languages_in, read_pairs

TMX = """<tmx><body><tu>
<tuv xml:lang="fr-CA"><seg>a</seg></tuv><tuv xml:lang="EN"><seg>b</seg></tuv>
</tu></body></tmx>"""


@pytest.mark.parametrize(
    ("name", "content", "languages"),
    [
        ("a.tsv", "de\ten\nja\tyes\n", ("de", "en")),
        ("a.csv", '"English","German"\nyes,ja\n', ("en", "de")),
        ("a.jsonl", '{"fr": "oui", "en": "yes"}\n', ("fr", "en")),
        ("a.jsonl", '{"translation": {"fr": "oui", "en": "yes"}}\n', ("fr", "en")),
        ("a.tmx", TMX, ("fr", "en")),
        ("a.tsv", "yes\tja\n", None),
        ("a.tsv", "eng\tdeu\nyes\tja\n", ("en", "de")),
        ("a.csv", "Français,Englisch\noui,yes\n", ("fr", "en")),
        ("a.jsonl", '{"eng_Latn": "yes", "deu_Latn": "ja"}\n', ("en", "de")),
        ("a.tmx", TMX.replace("fr-CA", "fra-CA").replace("EN", "ENG"), ("fr", "en")),
        ("a.tsv", "id\ten\tde\tfr\n", None),
        ("a.jsonl", "no JSON\n", None),
    ],
)
def test_the_languages_that_a_file_names_are_found(tmp_path: Path, name, content, languages):
    (tmp_path / name).write_text(content)
    with gzip.open(tmp_path / f"{name}.gz", "wt") as compressed:
        compressed.write(content)
    assert languages_in(tmp_path / name) == languages
    assert languages_in(tmp_path / f"{name}.gz") == languages


@pytest.mark.parametrize("german", ["ger", "DEU", "German", "Deutsch", "deutsch", "allemand", "German text"])
@pytest.mark.parametrize("french", ["fra", "fre", "FRENCH", "Français", "francais", "Französisch"])
def test_a_header_may_spell_its_languages_in_the_usual_ways(tmp_path: Path, german, french):
    table = tmp_path / "a.tsv"
    table.write_text(f"id\t{french}\t{german}\n1\toui\tja\n")
    assert languages_in(table) == ("fr", "de")
    assert list(read_pairs(table, ("de", "fr"))) == [Pair("ja", "oui")]


def test_codes_of_three_letters_in_a_memory_are_those_of_two(tmp_path: Path):
    path = tmp_path / "a.tmx"
    path.write_text(TMX.replace("fr-CA", "fra-CA").replace("EN", "eng"))
    assert list(read_pairs(path, ("en", "fr"))) == [Pair("b", "a")]


def test_a_language_beside_others_is_the_one_that_is_certain():
    """'tel' is a phone number beside two languages, and Telugu beside one."""
    assert named_languages(["en", "de", "tel"]) == ("en", "de")
    assert named_languages(["en", "tel"]) == ("en", "te")
    assert named_languages(["id", "en", "deu"]) == ("en", "de")
    assert named_languages(["eng", "deu", "fra"]) is None
    assert [language_of(name) for name in ("English (en)", "日本語", "हिन्दी", "en de")] == [
        "en",
        "ja",
        "hi",
        None,
    ]

"""Message catalogues give a pair per translated message; what is left out is counted."""

import logging
from pathlib import Path

import pytest

from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import languages_in, read_pairs
from clearhead.errors import DataError

HEADER = r"""# A program's messages.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: cs\n"
"Plural-Forms: nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;\n"
"""
ENTRIES = r"""
#: main.c:12
msgid "Open file"
msgstr "Otevřít soubor"

#. A long text.
msgid ""
"First line,\n"
"second \"line\"\tand \\ more"
msgstr ""
"První řádek,\n"
"druhý \"řádek\"\ta \\ víc"

msgctxt "menu"
msgid "Open"
msgstr "Otevřít"

msgctxt "state"
msgid "Open"
msgstr "Otevřeno"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d soubor"
msgstr[1] "%d soubory"
msgstr[2] "%d souborů"

#, fuzzy, c-format
#| msgid "Close it"
msgid "Close %s"
msgstr "Zavřít to"

msgid "Untranslated"
msgstr ""

#~ msgid "Old"
#~ msgstr "Starý"
"""


def catalogue(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def problem(path: Path, languages=("en", "cs")) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(path, languages))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_translated_message_is_a_pair(tmp_path, caplog):
    path = catalogue(tmp_path / "x.po", HEADER + ENTRIES)
    with caplog.at_level(logging.WARNING):
        pairs = list(read_pairs(path, ("en", "cs")))
    assert pairs == [
        Pair("Open file", "Otevřít soubor"),
        Pair('First line,\nsecond "line"\tand \\ more', 'První řádek,\ndruhý "řádek"\ta \\ víc'),
        Pair("Open", "Otevřít"),
        Pair("Open", "Otevřeno"),
        Pair("%d file", "%d soubor"),
        Pair("%d files", "%d souborů"),
    ]
    list(read_pairs(path, ("en", "cs")))
    left_out = f"{path}: entries left out: 1 fuzzy, 1 untranslated, 1 obsolete"
    assert caplog.messages == [left_out]  # once, although the file is read twice


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path):
    expected = list(read_pairs(catalogue(tmp_path / "x.po", HEADER + ENTRIES), ("en", "cs")))
    text = "\ufeff" + (HEADER + ENTRIES).replace("\n", "\r\n")
    assert list(read_pairs(catalogue(tmp_path / "y.po", text), ("en", "cs"))) == expected


def test_the_header_names_language_and_encoding(tmp_path):
    text = HEADER.replace("UTF-8", "ISO-8859-2") + ENTRIES
    path = catalogue(tmp_path / "x.po", text, "iso-8859-2")
    assert languages_in(path) == ("en", "cs")
    assert next(read_pairs(path, ("en", "cs"))) == Pair("Open file", "Otevřít soubor")
    assert next(read_pairs(path, ("cs", "en"))) == Pair("Otevřít soubor", "Open file")
    assert problem(path, ("en", "de")) == (
        f"{path}: translates into cs, not de; name its languages (train: --from, --to)"
    )
    text = HEADER.replace('"Language: cs\\n"', '"Language: pt_BR\\n"\n"X-Source-Language: de_AT\\n"')
    assert languages_in(catalogue(tmp_path / "y.po", text)) == ("de", "pt")
    text = 'msgid ""\nmsgstr "Language: de\\n"\n'  # on the line of the keyword
    assert languages_in(catalogue(tmp_path / "z.po", text)) == ("en", "de")


@pytest.mark.parametrize(
    ("expression", "forms", "expected"),
    [
        ("nplurals=1; plural=0;", ["all"], [Pair("files", "all")]),
        ("nplurals=2; plural=n > 1;", ["one", "many"], [Pair("file", "one"), Pair("files", "many")]),
        (
            "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
            ["many", "one", "two", "few"],
            [Pair("file", "one"), Pair("files", "many")],
        ),
        ("", ["one", "many"], [Pair("file", "one"), Pair("files", "many")]),
        ("nplurals=2; plural=import os;", ["one", "many"], [Pair("file", "one"), Pair("files", "many")]),
        ("nplurals=2; plural=n%0;", ["one", "many"], [Pair("file", "one"), Pair("files", "many")]),
    ],
)
def test_plural_forms_follow_the_header(tmp_path, expression, forms, expected):
    header = f'msgid ""\nmsgstr ""\n"Plural-Forms: {expression}\\n"\n'
    entry = 'msgid "file"\nmsgid_plural "files"\n'
    entry += "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(forms))
    path = catalogue(tmp_path / "x.po", f"{header}\n{entry}")
    assert list(read_pairs(path, ("en", "sl"))) == expected


def test_a_catalogue_without_translations_is_rejected_with_counts(tmp_path):
    path = catalogue(
        tmp_path / "x.po", HEADER + '\nmsgid "a"\nmsgstr ""\n\n#, fuzzy\nmsgid "b"\nmsgstr "c"\n'
    )
    assert problem(path) == (
        f"{path}: has no translations (1 untranslated, 1 fuzzy); name a file with translations"
    )
    assert problem(catalogue(path, HEADER)) == f"{path}: holds no messages; name a file with translations"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello there\n", "line 1: not valid PO, but 'hello there'; check it with msgfmt -c"),
        ('msgid "a\n', "line 1: not valid PO, because a quote is missing; check it with msgfmt -c"),
        ('"a"\n', "line 1: not valid PO"),
    ],
)
def test_a_broken_catalogue_is_reported_with_its_line(tmp_path, text, message):
    assert f"x.po, {message}" in problem(catalogue(tmp_path / "x.po", text))

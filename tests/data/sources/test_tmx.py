"""Translation memories are read as streams; entities that could expand without bound are rejected."""

from pathlib import Path

import pytest

from clearhead.data.sources.corpus import Pair
from clearhead.data.sources.tmx import read_tmx
from clearhead.errors import DataError

BOMB = """<?xml version="1.0"?>
<!DOCTYPE tmx [
<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<tmx><body><tu><tuv xml:lang="en"><seg>&c;</seg></tuv>
<tuv xml:lang="de"><seg>b</seg></tuv></tu></body></tmx>"""


def unit(*sides: tuple[str, str], name: str = "xml:lang") -> str:
    return "<tu>" + "".join(f'<tuv {name}="{lang}"><seg>{text}</seg></tuv>' for lang, text in sides) + "</tu>"


def memory(tmp_path: Path, *units: str, head: str = "") -> Path:
    path = tmp_path / "memory.tmx"
    path.write_text(f"{head}<tmx><header/><body>{''.join(units)}</body></tmx>", encoding="utf-8")
    return path


def problem(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_tmx(path, ("en", "de")))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_languages_match_by_prefix_and_other_units_are_skipped(tmp_path):
    path = memory(
        tmp_path,
        unit(("en-US", "yes"), ("de_AT", "ja")),
        unit(("en", "only")),
        unit(("DE", "nein"), ("fr", "non"), ("EN", "no")),
        unit(("enm", "not this"), ("de", "x")),
        unit(("en", "old"), ("de", "alt"), name="lang"),
    )
    assert list(read_tmx(path, ("en", "de"))) == [Pair("yes", "ja"), Pair("no", "nein"), Pair("old", "alt")]


def test_codes_inside_a_segment_are_left_out_and_highlighted_text_is_kept(tmp_path):
    text = 'a <bpt i="1">&lt;b&gt;</bpt><hi>bold</hi><ept i="1">&lt;/b&gt;</ept> word<ph/> &amp; more'
    path = memory(tmp_path, unit(("en", text), ("de", "b")))
    assert list(read_tmx(path, ("en", "de"))) == [Pair("a bold word & more", "b")]


def test_a_memory_in_utf_16_is_read(tmp_path):
    path = tmp_path / "x.tmx"
    text = f'<?xml version="1.0" encoding="utf-16"?><tmx><body>{unit(("en", "é"), ("de", "ü"))}</body></tmx>'
    path.write_bytes(text.encode("utf-16"))
    assert list(read_tmx(path, ("en", "de"))) == [Pair("é", "ü")]


def test_an_entity_bomb_is_rejected(tmp_path):
    path = tmp_path / "bomb.tmx"
    path.write_text(BOMB)
    assert f"{path}, line 2: declares XML entities" in problem(path)


def test_a_plain_document_type_is_harmless_but_its_entities_are_rejected(tmp_path):
    head = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    path = memory(tmp_path, unit(("en", "a"), ("de", "b")), head=head)
    assert list(read_tmx(path, ("en", "de"))) == [Pair("a", "b")]
    path = memory(tmp_path, unit(("en", "a&nbsp;c"), ("de", "b")), head=head)
    assert "declares XML entities ('nbsp')" in problem(path)


def test_an_external_entity_is_rejected_and_not_read(tmp_path):
    head = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    path = memory(tmp_path, unit(("en", "&x;"), ("de", "b")), head=head)
    assert "declares XML entities" in problem(path)


def test_broken_xml_is_reported_with_its_line(tmp_path):
    path = tmp_path / "x.tmx"
    path.write_text("<tmx>\n<body>\n<tu></body></tmx>")
    assert problem(path) == f"{path}, line 3: not well-formed TMX (mismatched tag); export it again"


def test_missing_languages_are_reported_with_those_in_the_file(tmp_path):
    path = memory(tmp_path, unit(("en-GB", "a"), ("fr", "b")))
    assert problem(path) == f"{path}: no unit holds both en and de; the file has en-gb, fr"

"""XLIFF of both versions gives a pair per translated unit."""

import logging
from pathlib import Path

import pytest

from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import languages_in, read_pairs
from clearhead.errors import DataError

OLD = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a.txt" source-language="en-US" target-language="de-DE" datatype="plaintext"><body>
  <group><trans-unit id="1" approved="yes">
   <source>Save <g id="1">all</g> files<x id="2"/><ph id="3">&lt;br/&gt;</ph></source>
   <target>Alle <g id="1">Dateien</g> sichern</target>
   <alt-trans><source>Save</source><target>Falsch</target></alt-trans><note>ignored</note>
  </trans-unit></group>
  <trans-unit id="2"><source>Untranslated</source></trans-unit>
  <trans-unit id="3"><source>New</source><target state="needs-translation">New</target></trans-unit>
  <trans-unit id="4"><source>Fish &amp; chips</source><target state="translated">Fisch</target></trans-unit>
 </body></file>
 <file original="b.txt" source-language="en" target-language="fr"><body>
  <trans-unit id="5"><source>Yes</source><target>Oui</target></trans-unit>
 </body></file>
</xliff>"""
NEW = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0"
 version="2.0" srcLang="en" trgLang="de">
 <file id="f"><unit id="1">
  <mtc:matches><mtc:match ref="#m"><source>Hi</source><target>Falsch</target></mtc:match></mtc:matches>
  <originalData><data id="d">&lt;b&gt;</data></originalData>
  <segment state="final"><source>Hello <pc id="1">you</pc>.</source>
  <target>Hallo <pc id="1">du</pc>.</target></segment>
  <ignorable><source> </source></ignorable>
  <segment><source>Bye<ph id="2" dataRef="d"/>.</source><target>Tschüss.</target></segment>
  <segment state="initial"><source>Later.</source><target>Later.</target></segment>
 </unit></file>
</xliff>"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def problem(path: Path, languages=("en", "de")) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(path, languages))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_version_1_2_gives_the_translated_units_of_its_languages(tmp_path, caplog):
    path = written(tmp_path / "x.xlf", OLD)
    with caplog.at_level(logging.WARNING):
        assert list(read_pairs(path, ("en", "de"))) == [
            Pair("Save all files", "Alle Dateien sichern"),
            Pair("Fish & chips", "Fisch"),
        ]
    assert caplog.messages == [f"{path}: entries left out: 2 untranslated"]
    assert list(read_pairs(path, ("fr", "en"))) == [Pair("Oui", "Yes")]


def test_version_2_gives_the_translated_segments(tmp_path):
    path = written(tmp_path / "x.xliff", NEW)
    assert list(read_pairs(path, ("en", "de"))) == [Pair("Hello you.", "Hallo du."), Pair("Bye.", "Tschüss.")]
    assert list(read_pairs(path, ("de", "en")))[1] == Pair("Tschüss.", "Bye.")


@pytest.mark.parametrize("text", [NEW, OLD.replace('target-language="fr"', "")])
def test_the_languages_are_in_the_file(tmp_path, text):
    assert languages_in(written(tmp_path / "x.xlf", text)) == ("en", "de")


def test_a_file_without_targets_is_rejected(tmp_path):
    unit = "<unit id='1'><segment><source>Hello</source></segment></unit>"
    path = written(tmp_path / "x.xlf", f"<xliff version='2.0' srcLang='en'><file>{unit * 3}</file></xliff>")
    assert problem(path) == f"{path}: has 3 units, but no translations; name a file with targets"
    path = written(tmp_path / "y.xlf", "<xliff version='2.0' srcLang='en'><file/></xliff>")
    assert problem(path) == f"{path}: has no units to translate; name another file"


def test_other_languages_are_named(tmp_path):
    message = problem(written(tmp_path / "x.xliff", NEW), ("en", "cs"))
    assert message.endswith(
        "x.xliff: translates en to de, not en to cs; name its languages (train: --from, --to)"
    )


@pytest.mark.parametrize(
    "declaration", ['<!ENTITY a "haha">', '<!ENTITY a SYSTEM "file:///etc/hostname">', '<!ENTITY % a "b">']
)
def test_entities_are_rejected(tmp_path, declaration):
    head = f"<!DOCTYPE xliff [{declaration}]>"
    path = written(tmp_path / "x.xlf", OLD.replace("<xliff", f"{head}<xliff", 1).replace("Yes", "&a;"))
    assert "declares XML entities" in problem(path)


def test_broken_xml_is_reported_with_its_line(tmp_path):
    path = written(tmp_path / "x.xlf", OLD[: OLD.index("<note>")])
    assert problem(path).startswith(f"{path}, line 7: not well-formed XLIFF (no element found)")

"""clearhead translate FILE --to LANG."""

import json
import os
import re
import resource
from pathlib import Path

import pytest

from clearhead.tasks.translation.documents import DocumentTranslator

TEXT = "# one two\n\n- three four {name}\n\n```\none\n```\n"
GERMAN = "# 1 2\n\n- 3 4 {name}\n\n```\none\n```\n"


@pytest.fixture
def document(tmp_path) -> Path:
    path = tmp_path / "doc.md"
    path.write_text(TEXT)
    return path


@pytest.fixture
def translate(call, many_model):
    def run(*arguments, **options):
        return call("translate", *arguments, "--model", many_model, "--to", "de", **options)

    return run


@pytest.fixture
def refused(error_of, many_model):
    def run(*arguments):
        return error_of("translate", *arguments, "--model", many_model)

    return run


def test_a_document_is_printed_with_its_structure(translate, document):
    result = translate(document)
    assert result.code == 0
    assert structure(result.out) == structure(GERMAN)
    assert "{name}" in result.out


def test_out_gets_the_same_bytes_as_stdout(translate, document, tmp_path):
    printed = translate(document).out
    out = tmp_path / "doc.de.md"
    result = translate(document, "--out", out)
    assert result.out == ""
    assert re.match(rf"{out}: sentences: 2 \([\d.,]+ sentences/s, [\d.,]+ tokens/s\)", result.err)
    assert out.read_text() == printed
    assert sorted(path.name for path in tmp_path.glob("doc*")) == ["doc.de.md", "doc.md"]


def test_a_dash_is_stdout(translate, document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert translate(document, "--out", "-").out == translate(document).out
    assert not (tmp_path / "-").exists()


def test_json_prints_an_object_per_sentence_beside_the_file(translate, document, tmp_path):
    result = translate(document, "--json", "--out", tmp_path / "x.md")
    first, second = map(json.loads, result.lines)
    assert first["source"] == "one two"
    assert 0 < first["confidence"] <= 1
    assert "{name}" in second["translation"]


def test_doubtful_sentences_are_marked_and_counted(translate, document):
    assert translate(document, "--mark", "--mark-below", "0").out == translate(document).out
    result = translate(document, "--mark-below", "1")
    assert result.out.count("⟪") == result.out.count("⟫") == 2
    assert "marked, with a confidence below 1: 2" in result.err


def test_windows_line_ends_byte_order_mark_and_last_line_are_kept(translate, tmp_path):
    path, out = tmp_path / "dos.txt", tmp_path / "out.txt"
    path.write_bytes("\ufeffone two\r\n\r\nthree one".encode())
    translate(path, "--out", out)
    content = out.read_bytes()
    assert content.startswith("\ufeff1".encode())
    assert content.count(b"\r\n") == content.count(b"\n") == 2
    assert not content.endswith(b"\n")


def test_a_dash_is_no_text_and_no_document(refused):
    for arguments in (["-"], ["-", "--to", "de"]):
        assert refused(*arguments) == (
            "-: is not a text; to read lines from stdin, leave it out; a document must be a file"
        )


def test_a_file_name_alone_is_not_translated(refused, document, monkeypatch):
    monkeypatch.chdir(document.parent)
    expected = (
        "doc.md: is a file; translate it with: clearhead translate doc.md --to LANG (line by line: < doc.md)"
    )
    assert refused("doc.md") == expected
    assert "clearhead translate doc.md --to de" in refused("one", "doc.md", "--to", "de")


def test_the_name_of_a_file_that_is_not_there_is_no_text(refused):
    expected = "docs/none.md: no such file; if it is a text, pass it on stdin"
    assert refused("docs/none.md", "--to", "de") == expected
    assert refused("docs/none.md") == expected


def test_a_text_that_is_no_file_is_translated_with_to(translate):
    assert len(translate("one two").lines) == 1
    assert len(translate("one " * 200).lines) in (0, 1)  # longer than any file name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("folder", "is a folder; name a file in it"),
        ("pipe", "is a pipe or a device; write the text to a file first"),
        ("empty.md", "is empty; name another file"),
        ("latin.md", ", line 2: not UTF-8 (byte 0xe9 at offset 13); save the file as UTF-8"),
        ("binary.md", ", line 1: contains NUL bytes"),
        ("long.txt", ", line 1: longer than 16777216 bytes; is this a text file?"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_one_line(refused, tmp_path, name, expected):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    else:
        mixed = "caf\u00e9 one\n".encode() + "caf\u00e9\n".encode("latin-1")
        with path.open("wb") as file:
            file.write({"latin.md": mixed, "binary.md": b"a\0b\n"}.get(name, b""))
            if name == "long.txt":
                file.write(b"a" * 50_000_000)
    assert expected in refused(path, "--to", "de")


def test_a_device_is_refused(refused):
    assert "is a pipe or a device" in refused("/dev/null", "--to", "de")


def test_out_must_be_another_file(refused, document, tmp_path):
    link = tmp_path / "link.md"
    link.hardlink_to(document)
    for out, expected in (
        (document, "is the document itself; choose another file"),
        (link, "is the document itself; choose another file"),
        (tmp_path, "is a folder; name a file in it"),
        ("/dev/null", "is not a regular file"),
        (tmp_path / "no" / "x.md", "there is no folder"),
    ):
        assert expected in refused(document, "--to", "de", "--out", out)
    assert document.read_text() == TEXT


def test_out_and_mark_need_a_document(refused, tmp_path):
    assert refused("--out", tmp_path / "x").startswith(f"--out {tmp_path / 'x'}: needs one document")
    assert refused("one two", "--mark", "--to", "de").startswith("--mark: needs one document")
    assert refused(tmp_path / "none.md", "--to", "de", "--out", tmp_path / "x").endswith("no such file")


def test_options_of_single_texts_are_refused(refused, document):
    assert refused(document, "--to", "de", "--nbest", "2").startswith(
        "--nbest 2: does not apply to a document"
    )
    assert refused(document, "--to", "de", "--prefix", "a").startswith("--prefix: does not apply")
    assert "from 0 to 1" in refused(document, "--to", "de", "--mark-below", "7")


def test_a_full_disk_keeps_what_was_translated(refused, tmp_path):
    path, out = tmp_path / "long.txt", tmp_path / "out.txt"
    path.write_text("one two three\n" * 400)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        error = refused(path, "--to", "de", "--out", out, "--batch-size", "50")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = tmp_path / "out.txt.partial"
    assert error == f"{kept}: cannot be written (File too large); what was translated is kept in {kept}"
    assert kept.stat().st_size > 500
    assert not out.exists()


def test_ctrl_c_says_where_the_translation_so_far_is(translate, tmp_path, monkeypatch):
    path, out = tmp_path / "long.txt", tmp_path / "out.txt"
    path.write_text("one two three\n\n" * 10)
    stream, parts = DocumentTranslator.stream, []

    def interrupted(*arguments):
        for part in stream(*arguments):
            if parts:
                raise KeyboardInterrupt
            parts.append(part)
            yield part

    monkeypatch.setattr(DocumentTranslator, "stream", interrupted)
    result = translate(path, "--out", out, "--batch-size", "2")
    assert result.code == 130
    assert f"translated so far: {out}.partial" in result.err
    assert Path(f"{out}.partial").read_text() == parts[0].text


def structure(text):
    return [(line[:2] if line[:1] in "#-`" else "text") if line else "" for line in text.splitlines()]

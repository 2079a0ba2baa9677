"""A bad file is reported in one line with its name, the line number and the fix, before any work."""

import gzip
from pathlib import Path

import pytest

BOMB = """<?xml version="1.0"?>
<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<tmx><body><tu><tuv xml:lang="en"><seg>&b;</seg></tuv>
<tuv xml:lang="de"><seg>&b;</seg></tuv></tu></body></tmx>
"""
FILES = {
    "missing.en-de.tsv": (None, "no such file"),
    "empty.en-de.tsv": (b"", "is empty"),
    "blank.en-de.tsv": (b"\n\n", "is empty"),
    "binary.en-de.tsv": (
        b"\x00\x01\x02\n",
        "line 1: contains NUL bytes, so it is not UTF-8 text; convert it first",
    ),
    "latin.en-de.tsv": (
        b"a\tb\ncaf\xe9\td\n",
        "line 2: not UTF-8 (byte 0xe9 at offset 7); save the file as UTF-8",
    ),
    "one.en-de.tsv": (b"a\tb\nc\n", "line 2: 1 column where 2 are needed; separate them by tabs"),
    "bomb.en-de.tmx": (BOMB.encode(), "line 2: declares XML entities"),
    "cut.en-de.tmx": (b"<tmx><body><tu>", "line 1: not well-formed TMX (no element found)"),
    "cut.en-de.tsv.gz": (gzip.compress(b"a\tb\n" * 99)[:-9], "cut short or not a .gz file"),
    "not.en-de.jsonl": (b"{}\n", "line 1: no field 'source'; it has none"),
    "odd.en-de.docx": (
        b"PK",
        "unknown suffix '.docx'; use one of .tsv, .txt, .csv, .jsonl, .ndjson, .json, .parquet, .tmx",
    ),
    "few.en-de.tsv": (b"a\tb\n", "1 pair read, 1 kept; a translator needs at least 20 pairs"),
    "not.en-de.parquet": (b"PAR1", "cut short or not a Parquet file"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_of_pairs_is_named_with_its_line(name, error_of, tmp_path):
    content, message = FILES[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    error = error_of("train", "--pairs", path, "--out", tmp_path / "out")
    assert error.startswith(str(path))
    assert message in error
    assert not (tmp_path / "out").exists()


def test_a_bad_file_in_a_recipe_gives_the_same_error(error_of, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    for name in (
        "missing.en-de.tsv",
        "empty.en-de.tsv",
        "binary.en-de.tsv",
        "latin.en-de.tsv",
        "bomb.en-de.tmx",
    ):
        content, message = FILES[name]
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        error = error_of("train", recipe, "--out", tmp_path / "out", "--set", f'data.train=["{path}"]')
        assert error.startswith(str(path))
        assert message in error


def test_aligned_files_of_different_lengths_are_rejected(error_of, tmp_path):
    (tmp_path / "a.en").write_text("one\n" * 30)
    (tmp_path / "a.de").write_text("eins\n" * 29)
    error = error_of("train", "--pairs", f"{tmp_path}/a.en,{tmp_path}/a.de", "--out", tmp_path / "out")
    assert f"{tmp_path}/a.en has 30 lines but {tmp_path}/a.de has 29" in error
    assert "need the same number" in error


def test_more_than_two_aligned_files_are_rejected(error_of, tmp_path):
    error = error_of("train", "--pairs", "a.en,a.de,a.fr", "--out", tmp_path)
    assert error == "--pairs a.en,a.de,a.fr: pass one file, or two aligned files as SOURCE,TARGET"


def test_a_second_file_without_its_option_is_no_recipe(error_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("film.de.srt").touch()
    error = error_of("train", "--pairs", "film.en.srt", "film.de.srt", "--out", "out")
    assert error == (
        "film.de.srt: is no recipe; for several files pass --pairs film.en.srt --pairs film.de.srt, "
        "or if they are aligned: --pairs film.en.srt,film.de.srt"
    )
    Path("b.txt").touch()
    error = error_of("train", "--text", "a.txt", "b.txt", "--out", "out")
    assert error == "b.txt: is no recipe; for several files pass --text a.txt --text b.txt"


def test_one_file_of_subtitles_needs_another_and_not_languages(error_of, tmp_path):
    (tmp_path / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHi\n")
    error = error_of("train", "--pairs", tmp_path / "film.srt", "--out", tmp_path / "out")
    assert error.startswith(f"{tmp_path}/film.srt: holds one language; name two files")


def test_a_file_name_without_languages_is_reported(error_of, tmp_path):
    (tmp_path / "mine.tsv").write_text("yes\tja\n")
    error = error_of("train", "--pairs", tmp_path / "mine.tsv", "--out", tmp_path / "out")
    message = "the languages are in neither the file name nor the content; add --from en --to de"
    assert error == f"{tmp_path}/mine.tsv: {message}"


def test_evaluate_names_a_bad_file(error_of, tmp_path, number_model):
    (tmp_path / "latin.tsv").write_bytes(b"a\tb\ncaf\xe9\td\n")
    error = error_of("evaluate", number_model, "--pairs", tmp_path / "latin.tsv")
    assert error.startswith(f"{tmp_path}/latin.tsv, line 2: not UTF-8")


def test_a_test_set_of_blank_pairs_is_rejected(error_of, tmp_path, number_model):
    (tmp_path / "empty.tsv").write_text("\tb\na\t\n")
    assert "nothing to score" in error_of("evaluate", number_model, "--pairs", tmp_path / "empty.tsv")


def test_evaluate_without_held_out_pairs_needs_a_file(error_of, copied):
    (copied / "test.tsv").unlink()
    assert "this folder has no held-out test pairs; name a file with --pairs" in error_of("evaluate", copied)


def test_translations_to_compare_with_must_match_the_test_set(error_of, tmp_path, number_model):
    (tmp_path / "theirs.txt").write_text("1 2\n3 4\n")
    error = error_of("evaluate", number_model, "--against", tmp_path / "theirs.txt")
    assert error == f"{tmp_path}/theirs.txt: 2 lines for 40 test pairs; one line per pair is needed"
    assert "no such model folder" in error_of("evaluate", number_model, "--against", tmp_path / "nothing")


def test_an_unwritable_output_is_reported_before_the_work(error_of, number_model, tmp_path):
    error = error_of("evaluate", number_model, "--out", tmp_path / "no" / "folder")
    assert error == f"{tmp_path}/no/folder: No such file or directory; choose another path"

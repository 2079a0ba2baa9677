"""Subtitles are text, or with those in another language, pairs of what is shown at the same time."""

import logging
from pathlib import Path

import pytest

from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import read_pairs, reader_name
from clearhead.data.sources.documents import read_documents
from clearhead.errors import DataError
from clearhead.tasks.translation.sizing import guess_languages

ENGLISH = """1
00:00:01,000 --> 00:00:03,500
<i>Good morning,</i>
how are you?

2
00:00:04,000 --> 00:00:06,000
{\\an8}- Fine.
- <font color="#fff">Really?</font>

3
00:00:07,000 --> 00:00:12,000
We have 3 < 4 dogs and a very long sentence.

4
00:01:00,000 --> 00:01:02,000
Only in English.
"""
GERMAN = """1
00:00:01,100 --> 00:00:03,400
Guten Morgen, wie geht es?

2
00:00:04,100 --> 00:00:06,000
- Gut.
- Wirklich?

3
00:00:07,000 --> 00:00:09,400
Wir haben 3 < 4 Hunde

4
00:00:09,500 --> 00:00:12,000
und einen sehr langen Satz.
"""
PAIRS = [
    Pair("Good morning, how are you?", "Guten Morgen, wie geht es?"),
    Pair("- Fine. - Really?", "- Gut. - Wirklich?"),
    Pair("We have 3 < 4 dogs and a very long sentence.", "Wir haben 3 < 4 Hunde und einen sehr langen Satz."),
]


def films(folder: Path, english: str, german: str) -> tuple[Path, Path]:
    paths = folder / "film.en.srt", folder / "film.de.srt"
    for path, text in zip(paths, (english, german), strict=True):
        path.write_bytes(text.encode())
    return paths


def shifted(text: str, minutes: int) -> str:
    return text.replace("00:00:", f"00:{minutes:02}:")


def problem(path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(path, ("en", "de")))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_cues_are_paired_by_time_and_the_rest_is_counted(tmp_path, caplog):
    paths = films(tmp_path, ENGLISH, GERMAN)
    with caplog.at_level(logging.WARNING):
        assert list(read_pairs(paths, ("en", "de"))) == PAIRS
    left_out = "entries left out: 1 without a counterpart"
    assert caplog.messages == [f"{paths[0]} and {paths[1]}: {left_out}"]
    assert list(read_pairs((paths[1], paths[0]), ("de", "en"))) == [pair.swapped for pair in PAIRS]


def test_windows_line_ends_a_byte_order_mark_and_missing_numbers_change_nothing(tmp_path):
    unnumbered = "\n".join(line for line in GERMAN.split("\n") if not line.isdecimal())
    paths = films(tmp_path, "\ufeff" + ENGLISH.replace("\n", "\r\n"), unnumbered)
    assert list(read_pairs(paths, ("en", "de"))) == PAIRS


def test_equally_many_cues_at_other_times_are_paired_by_number(tmp_path):
    english = ENGLISH[: ENGLISH.index("3\n00:00:07")]
    german = shifted(GERMAN[: GERMAN.index("3\n00:00:07")], 5)
    assert list(read_pairs(films(tmp_path, english, german), ("en", "de"))) == PAIRS[:2]


def test_other_numbers_of_cues_at_other_times_are_rejected(tmp_path):
    german = shifted(GERMAN[: GERMAN.index("4\n00:00:09")], 5)
    paths = films(tmp_path, ENGLISH, german)
    assert problem(paths) == (
        f"{paths[0]} has 4 subtitles and {paths[1]} 3, and 0% are shown at the same time; "
        "name files of the same version of the film"
    )


def test_one_file_is_text_and_no_pairs(tmp_path):
    path, _ = films(tmp_path, ENGLISH, GERMAN)
    [chunk] = read_documents([path])
    assert chunk.text.splitlines()[:2] == ["Good morning, how are you?", "- Fine. - Really?"]
    assert problem(path) == (
        f"{path}: holds one language; name two files (train, evaluate: --pairs SOURCE,TARGET)"
    )


def test_the_languages_are_in_the_names(tmp_path):
    assert guess_languages(films(tmp_path, ENGLISH, GERMAN)) == ("en", "de")
    assert guess_languages(("a.en.txt.gz", "a.fr.txt.gz")) == ("en", "fr")
    assert guess_languages(("a.en.xz", "a.cs")) == ("en", "cs")
    assert reader_name(films(tmp_path, ENGLISH, GERMAN)) != reader_name(
        (tmp_path / "a.en", tmp_path / "a.de")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; name another file"),
        (b"Just text.\n", "has no subtitles; each needs a line such as 00:00:01,000 --> 00:00:04,000"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n\n", "has no subtitles"),
        (
            "1\n00:00:01,000 --> 00:00:02,000\nKöln\n".encode("latin-1"),
            "line 3: not UTF-8 (byte 0xf6 at offset 33)",
        ),
    ],
)
def test_files_without_subtitles_get_one_clear_line(tmp_path, content, message):
    path, _ = films(tmp_path, ENGLISH, GERMAN)
    path.write_bytes(content)
    assert message in problem((path, tmp_path / "film.de.srt"))

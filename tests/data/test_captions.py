"""Captions are read from tables and JSON Lines; a line that is none is named."""

from pathlib import Path

import pytest

from clearhead.data.sources.captions import Caption, read_captions
from clearhead.errors import DataError

EXPECTED = [Caption("a.jpg", "A dog , running ."), Caption("a.jpg", "a dog"), Caption("b.jpg", "A hill")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("Flickr8k.token.txt", "a.jpg#0\tA dog , running .\na.jpg#1\ta dog\nb.jpg#0\tA hill\n"),
        ("captions.tsv", "image\tcaption\na.jpg\tA dog , running .\na.jpg\ta dog\nb.jpg\tA hill\n"),
        ("reversed.tsv", "caption\tfile_name\nA dog , running .\ta.jpg\na dog\ta.jpg\nA hill\tb.jpg\n"),
        ("captions.txt", 'image,caption\na.jpg,"A dog , running ."\na.jpg,a dog\nb.jpg,A hill\n'),
        (
            "captions.jsonl",
            '{"image": "a.jpg", "captions": ["A dog , running .", "a dog"]}\n\n'
            '{"image": "b.jpg", "caption": "A hill"}\n',
        ),
    ],
)
def test_every_format_gives_the_same_captions(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert list(read_captions(tmp_path / name)) == EXPECTED


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "c.tsv",
            "a.jpg\ta dog\nb.jpg\n",
            r"line 2: 1 column; each line needs the file name of an image, a tab",
        ),
        ("c.txt", "a dog\n", r"line 1: 1 column; each line needs the file name of an image, a comma"),
        (
            "c.jsonl",
            '{"image": "a.jpg", "label": 3}\n',
            r"line 1: needs the fields 'image' and 'caption'; it has",
        ),
        ("c.jsonl", '{"image": "a.jpg", "caption": 3}\n', r"line 1: 3 is not text"),
        ("c.jsonl", "[3]\n", r"record 1: needs the fields 'image' and 'caption'; it has none"),
        ("c.jsonl", "{\n", r"line 1: not valid JSON"),
        ("c.tsv", "", r"is empty"),
    ],
)
def test_a_line_without_image_and_caption_is_named(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(read_captions(tmp_path / name))

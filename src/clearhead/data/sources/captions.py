"""Captions of images: lines of a file name and a caption, as Flickr8k has them, or JSON Lines."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.data.sources.columns import listed, usual_name
from clearhead.data.sources.jsonl import json_lines
from clearhead.data.sources.streams import lines, suffix
from clearhead.data.sources.tables import csv_rows, tsv_rows
from clearhead.errors import DataError
from clearhead.text.normalize import without_surrogates
from clearhead.wording import counted

# The usual names of the two columns or fields.
IMAGES = ("image", "file_name", "filename", "image_name", "file", "path", "name")
CAPTIONS = ("caption", "captions", "text", "comment", "sentence", "sentences")
# Flickr8k numbers the captions of an image: 'dog.jpg#0'.
NUMBER = re.compile(r"#\d+$")


class Caption(NamedTuple):
    """A caption, and the name of its image."""

    image: str
    text: str


def read_captions(path: Path) -> Iterator[Caption]:
    """The captions of a file, in order.

    Each line holds the file name of an image, a tab or a comma, and a caption; a header may name the two
    columns. Each line of a .jsonl file is an object with the fields 'image' and 'caption', or a list
    'captions'. An image may have several lines.
    """
    if suffix(path) in (".jsonl", ".ndjson"):
        return _json_captions(path)
    return _table_captions(path)


def read_names(path: Path) -> list[str]:
    """The names of images in a file, one per line."""
    return [line.strip() for line in lines(path) if line.strip()]


def _table_captions(path: Path) -> Iterator[Caption]:
    separator = "," if suffix(path) == ".csv" or "\t" not in next(lines(path)) else "\t"
    rows = csv_rows(path) if separator == "," else tsv_rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: is empty; name another file")
    columns = _usual([name.strip() for name in first[1]])
    image, caption = columns or (0, 1)
    for number, row in rows if columns else chain([first], rows):
        if len(row) <= max(image, caption):
            wanted = "a comma" if separator == "," else "a tab"
            raise DataError(
                f"{path}, line {number}: {counted(len(row), 'column')}; each line needs the file "
                f"name of an image, {wanted} and a caption"
            )
        yield Caption(NUMBER.sub("", row[image].strip()), row[caption].strip())


def _json_captions(path: Path) -> Iterator[Caption]:
    for where, record in json_lines(path):
        names = list(record) if isinstance(record, dict) else []
        columns = _usual(names)
        if columns is None:
            raise DataError(f"{where}: needs the fields 'image' and 'caption'; it has {listed(names)}")
        image, captions = (record[names[column]] for column in columns)
        yield from _checked(where, image, captions)


def _checked(where: str, image: Any, captions: Any) -> Iterator[Caption]:
    for text in captions if isinstance(captions, list) else [captions]:
        if not isinstance(image, str) or not isinstance(text, str):
            wrong = image if not isinstance(image, str) else text
            raise DataError(
                f"{where}: {json.dumps(wrong)[:40]} is not text; give an image's name and captions"
            )
        yield Caption(without_surrogates(image), without_surrogates(text).strip())


def _usual(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns of image and caption by their usual names, if both are there."""
    image, caption = usual_name(names, IMAGES), usual_name(names, CAPTIONS)
    return None if image is None or caption is None else (names.index(image), names.index(caption))

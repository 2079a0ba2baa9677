"""Options that several commands share, and how their values are read."""

import json
import sys
from typing import Annotated, Any

import typer

from clearhead.errors import SettingsError

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
Pairs = Annotated[
    str | None,
    typer.Option(
        help="Pairs of sentences: a .tsv, .csv, .jsonl, .parquet or .tmx file (also .gz, .xz, .zst), two "
        "aligned files as SOURCE,TARGET, or the name of a shipped data set.",
        metavar="FILE",
    ),
]


def place(pairs: str) -> str | tuple[str, str]:
    """A file or data set, or the two aligned files of 'SOURCE,TARGET'."""
    parts = pairs.split(",")
    if len(parts) > 2:
        raise SettingsError(f"--pairs {pairs}: give one file, or two aligned ones as SOURCE,TARGET")
    return (parts[0], parts[1]) if len(parts) == 2 else pairs


def say(text: str = "") -> None:
    """Talk goes to stderr, so that stdout holds results alone."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def put(line: str | dict[str, Any]) -> None:
    """A result: a line of text, or an object as a line of JSON."""
    sys.stdout.write((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n")
    sys.stdout.flush()

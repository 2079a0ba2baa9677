"""Which languages a file itself says that it holds."""

import json
import re
from itertools import islice
from pathlib import Path

from clearhead.data.sources.streams import ending, lines, opened
from clearhead.text.languages import NAMES

# Enough of a translation memory for its first entries.
BEGINNING = 1 << 16


def languages_in(path: Path) -> tuple[str, str] | None:
    """The two languages in a header, in the fields of the first record or in a TMX; None where unclear."""
    kind = ending(path)
    if kind == ".tmx":
        with opened(path) as stream:
            beginning = stream.read(BEGINNING).decode("utf-8", errors="replace")
        return _two(re.findall(r"<tuv[^>]*\blang\s*=\s*[\"']([A-Za-z]+)", beginning))
    first = next(islice(lines(path), 1), "")
    match kind:
        case ".jsonl" | ".ndjson":
            return _two(_keys(first))
        case ".csv":
            return _two(first.replace('"', "").split(","))
        case ".tsv" | ".txt":
            return _two(first.split("\t"))
    return None


def _two(names: list[str]) -> tuple[str, str] | None:
    """The codes among names, if there are just two of them."""
    codes = {name.lower(): code for code, name in NAMES.items()} | {code: code for code in NAMES}
    found = list(dict.fromkeys(codes[name] for given in names if (name := given.strip().lower()) in codes))
    return (found[0], found[1]) if len(found) == 2 else None


def _keys(line: str) -> list[str]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return []
    if not isinstance(record, dict):
        return []
    return [*record, *(key for value in record.values() if isinstance(value, dict) for key in value)]

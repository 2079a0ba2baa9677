"""Records of JSON files: one per line (.jsonl, .ndjson), or all in one array (.json)."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.data.sources.columns import listed, named_languages
from clearhead.data.sources.streams import lines, open_file, undecodable
from clearhead.errors import DataError

# Enough bytes to see whether a file begins with an array.
HEAD = 1 << 12
# Between the members of an array.
SPACE = re.compile(r"[\s,]*")


def jsonl_languages(path: Path) -> tuple[str, str] | None:
    try:
        _, record = next(json_lines(path), ("", None))
    except DataError:
        return None
    if not isinstance(record, dict):
        return None
    nested = (name for value in record.values() if isinstance(value, dict) for name in value)
    return named_languages([*record, *nested])


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The value in each line that is not blank, or the members of an array, with locations for messages."""
    with open_file(path) as stream:
        head = stream.read(HEAD).removeprefix(codecs.BOM_UTF8).lstrip()
    if head.startswith(b"["):
        yield from _members(path)
        return
    for number, line in enumerate(lines(path), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_json(line, where, "fix or remove the line")


def _members(path: Path) -> Iterator[tuple[str, Any]]:
    """The members of the array that a file holds, decoded one by one."""
    with open_file(path) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise undecodable(path, line, content[error.start], error.start) from None
    decoder, position, number = json.JSONDecoder(), text.index("[") + 1, 0
    while (position := SPACE.match(text, position).end()) < len(text) and text[position] != "]":  # pyright: ignore
        number += 1
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            line, reason = text.count("\n", 0, position) + 1, str(error).partition(":")[0]
            raise DataError(
                f"{path}, line {line}: record {number} is not valid JSON ({reason}); fix or remove it"
            ) from None
        yield f"{path}, record {number}", value
    if position >= len(text):
        raise DataError(f"{path}: the array of records has no end; is the file cut short?")
    if not number:
        raise DataError(f"{path}: is empty; name another file")


def parse_json(text: str | bytes, where: str, way_out: str) -> Any:
    """The value of a JSON text; raises DataError with its location and the way out."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(":")[0]
        raise DataError(f"{where}: not valid JSON ({reason}); {way_out}") from None


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON object in each line or array member, with its location for messages."""
    for where, record in json_lines(path):
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected a JSON object, got {type(record).__name__}")
        yield where, record


def read_fields(
    path: Path, choose: Callable[[list[str]], Sequence[str]], labels: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Some texts of the JSON object in each line; `choose` picks their fields from the names in the first.

    A nested field is named with a dot: 'translation.en'; of a list of objects, 'questions.question' has a
    line for each. With `labels`, an integer counts as text, and the first field may be a list of texts or
    integers, which becomes a tuple.
    """
    fields: Sequence[str] = ()
    for where, record in read_objects(path):
        fields = fields or choose(_names(record))
        values = [(name, _value(where, record, name)) for name in fields]
        if labels and isinstance(values[0][1], list):
            several = tuple(_text(where, fields[0], one, labels) for one in values[0][1])
            yield several, *(_text(where, *value, labels) for value in values[1:])
        else:
            yield tuple(_text(where, *value, labels) for value in values)


def _names(record: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}.{inner}" if inner else name
        for name, value in record.items()
        for inner in (_first(value) if isinstance(_first(value), dict) else ("",))
    ]


def _first(value: Any) -> Any:
    """The first member of a list; any other value itself."""
    return value[0] if isinstance(value, list) and value else value


def _value(where: str, record: Mapping[str, Any], name: str) -> Any:
    """The value of a field."""
    value: Any = record
    for part in [name] if name in record else name.split("."):
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            value = "\n".join(_text(where, name, _value(where, one, part), numbers=False) for one in value)
            continue
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"{where}: no field '{name}'; it has {listed(_names(record))}")
        value = value[part]
    return value


def _text(where: str, name: str, value: Any, numbers: bool) -> str:
    """A value as text; null is empty, and so left to the cleaning."""
    if value is None:
        return ""
    if numbers and isinstance(value, int):
        return json.dumps(value)
    if not isinstance(value, str):
        raise DataError(f"{where}: field '{name}' is {json.dumps(value)[:40]}, not text")
    return value

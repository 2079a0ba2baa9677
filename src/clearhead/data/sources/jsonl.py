"""Records of JSON Lines files (.jsonl, .ndjson)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.data.sources.columns import listed, named_languages
from clearhead.data.sources.streams import lines
from clearhead.errors import DataError


def jsonl_languages(path: Path) -> tuple[str, str] | None:
    try:
        record = json.loads(next(lines(path), ""))
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    nested = (name for value in record.values() if isinstance(value, dict) for name in value)
    return named_languages([*record, *nested])


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The value in each line that is not blank, with its location for messages."""
    for number, line in enumerate(lines(path), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_json(line, where, "fix or remove the line")


def parse_json(text: str | bytes, where: str, way_out: str) -> Any:
    """The value of a JSON text; raises DataError with its location and the way out."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(":")[0]
        raise DataError(f"{where}: not valid JSON ({reason}); {way_out}") from None


def read_fields(
    path: Path, choose: Callable[[list[str]], Sequence[str]], labels: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Some texts of the JSON object in each line; `choose` picks their fields from the names in the first.

    A nested field is named with a dot: 'translation.en'; of a list of objects, 'questions.question' has a
    line for each. With `labels`, an integer counts as text, and the first field may be a list of texts or
    integers, which becomes a tuple.
    """
    fields: Sequence[str] = ()
    for where, record in json_lines(path):
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected a JSON object, got {type(record).__name__}")
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

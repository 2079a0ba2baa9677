"""Typed settings: TOML in, frozen objects out; all errors are reported at once, by path."""

import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from clearhead.errors import SettingsError, closest_match, did_you_mean
from clearhead.retired import renaming


class Settings(BaseModel):
    """Base class of all groups of settings: frozen, and without unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    @classmethod
    def names(cls) -> Collection[str]:
        """The settings of this group."""
        return cls.model_fields


class PresetSettings(Settings):
    """Settings with named presets: `preset = "base"` stands for all of its settings."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        """Replaces a preset by its settings; settings beside it take precedence, also within a group."""
        if not isinstance(values, dict) or "preset" not in values:
            return values
        values = dict(values)
        name = values.pop("preset")
        if name not in cls.PRESETS:
            raise ValueError(f"preset {name!r} is not one of {', '.join(cls.PRESETS)}")
        preset = cls.PRESETS[name]
        groups = {
            group: {**preset[group], **given}
            for group, given in values.items()
            if isinstance(given, dict) and isinstance(preset.get(group), dict)
        }
        return {**preset, **values, **groups}


S = TypeVar("S", bound=Settings)

# pydantic's error types in our words.
WRONG_TYPE = {
    "int_type": "is not an integer",
    "int_from_float": "is not an integer",
    "int_parsing": "is not an integer",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "string_type": "is not a string (put it in quotes)",
    "bool_type": "is not true or false",
    "list_type": "is not a list (put it in brackets)",
    "tuple_type": "is not a list (put it in brackets)",
    "model_type": "is a value, but this is a group of settings",
    "model_attributes_type": "is a value, but this is a group of settings",
}
MAX_SHOWN = 80
"""Characters of an invalid value that an error message quotes."""


def read_settings(kind: type[S], path: Path, overrides: Sequence[str] = ()) -> S:
    """The settings in a TOML file, with overrides of the form 'a.b=value'."""
    return parse_settings(kind, apply_overrides(read_toml(path), overrides), location=str(path))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a folder; pass a .toml file") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def parse_settings(kind: type[S], values: Mapping[str, Any], location: str = "", group: str = "") -> S:
    """Validated settings; raises one SettingsError that lists every problem.

    `location` is the file that holds the values, `group` their path in it.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        prefix = f"{location}: " if location else ""
        raise SettingsError(*(prefix + problem for problem in problems(kind, error, group))) from None


def apply_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the values with overrides of the form 'a.b=value'.

    A value is TOML, or else a string without quotes; its escapes are those of TOML's basic strings.
    """
    result = dict(values)
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            raise SettingsError(f"--set {override}: write NAME=VALUE, for example model.width=256")
        *parents, name = path.strip().split(".")
        group = result
        for parent in parents:
            inner = group.get(parent, {})
            if not isinstance(inner, Mapping):
                raise SettingsError(f"--set {override}: {parent} is a value, not a group of settings")
            group[parent] = group = dict(inner)
        try:
            group[name] = _toml_value(text.strip())
        except tomllib.TOMLDecodeError:
            raise SettingsError(
                f"--set {override}: has a backslash that TOML does not know; double it, or put the value in "
                "single quotes inside the others"
            ) from None
    return result


def settings_toml(settings: Settings) -> str:
    """The complete settings as TOML, without None, which TOML cannot express."""
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def problems(kind: type[Settings], error: ValidationError, group: str = "") -> Iterator[str]:
    """One message per invalid setting, in the order of the settings; `group` is the path to them."""
    details = error.errors()
    for detail in details:
        loc, depth = detail["loc"], len(detail["loc"])
        inside = (other["loc"] for other in details if len(other["loc"]) > depth)
        if detail["type"] == "too_short" and any(other[:depth] == loc for other in inside):
            continue  # pydantic counts only the valid items
        inner, parent = _locate(kind, loc)
        path = ".".join(filter(None, (group, inner)))
        around, message = path.rpartition(".")[0], None
        if detail["type"] in ("extra_forbidden", "literal_error"):
            known = [f"{around}.{name}" for name in parent.names()] if parent else []
            message = renaming(path, detail["input"], known)
        message = message or describe(detail, parent, around)
        yield f"{path}: {message}" if path else message


def describe(detail: ErrorDetails, parent: type[Settings] | None = None, group: str = "") -> str:
    """The problem with one value; `parent` is the class of the settings around it, `group` their path."""
    context, value = detail.get("ctx", {}), detail["input"]
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            return unknown_setting(name, parent, group)
        case "missing":
            return "is missing"
        case "literal_error" | "union_tag_invalid":
            choices = context.get("expected", context.get("expected_tags", ""))
            shown = value.get("kind") if isinstance(value, Mapping) else value
            return f"{_shown(shown)} is not one of {choices.replace(' or ', ', ').replace(chr(39), '')}"
        case "union_tag_not_found":
            return "kind is missing"
        case "value_error":
            return str(context["error"])
        case kind if kind in WRONG_TYPE:
            return f"{_shown(value)} {WRONG_TYPE[kind]}{_as_group(parent, name, value)}"
        case _:
            # pydantic's message with the value itself: "Input should be greater than 0".
            _, should, rest = detail["msg"].partition(" should ")
            return f"{_shown(value)} should {rest}" if should else detail["msg"].lower()


def unknown_setting(name: str, parent: type[Settings] | None, group: str) -> str:
    """The message for a name that no setting has, with a suggestion.

    The suggestion is a setting of this name in an inner group, or else the most similar name in this group.
    """
    if parent is None:
        return "unknown setting"
    inner = (
        ".".join(filter(None, (group, field_name, name)))
        for field_name, field in parent.model_fields.items()
        if any(name in member.names() for member in _members(field.annotation))
    )
    return "unknown setting" + did_you_mean(next(inner, None) or closest_match(name, parent.names()))


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if "\\" not in text:
            return text
        # A quote after an even number of backslashes, or none, is not escaped.
        quoted = re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', text)
        # TOML drops the first line end.
        return tomllib.loads(f'value = """\n{quoted}"""')["value"]


def _locate(kind: type[Settings], loc: tuple[int | str, ...]) -> tuple[str, type[Settings] | None]:
    """The dotted path as the user wrote it, without pydantic's union tags, and the class around the error."""
    path: list[str] = []
    annotation: Any = kind
    parent: type[Settings] | None = kind
    for part in loc:
        members = {_tag(member): member for member in _members(annotation)}
        if isinstance(part, int):
            path.append(str(part))
        elif len(members) > 1 and part in members:
            annotation = parent = members[part]
        else:
            group = next((member for member in members.values() if part in member.model_fields), None)
            parent = group or next(iter(members.values()), None)
            path.append(part)
            annotation = group.model_fields[part].annotation if group else None
    return ".".join(path), parent


def _members(annotation: Any) -> list[type[Settings]]:
    """The settings classes in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [member for inner in typing.get_args(annotation) for member in _members(inner)]
    return []


def _tag(kind: type[Settings]) -> str:
    field = kind.model_fields.get("kind")
    return str(field.default) if field else kind.__name__


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _as_group(parent: type[Settings] | None, name: str, value: object) -> str:
    """How to write a group of settings if only its kind was given."""
    field = parent.model_fields.get(name) if parent else None
    kinds = [_tag(member) for member in _members(field.annotation)] if field else []
    return f'; write {{ kind = "{value}" }}' if value in kinds else ""

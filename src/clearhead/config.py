"""Typed settings: TOML in, frozen objects out; what is wrong is said at once, by path, with a way out."""

import tomllib
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from clearhead.errors import SettingsError, meant, nearest
from clearhead.retired import renaming


class Settings(BaseModel):
    """The base of every group of settings: immutable, and closed to unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    @classmethod
    def names(cls) -> Collection[str]:
        """What may be set here."""
        return cls.model_fields


S = TypeVar("S", bound=Settings)

# What is said of a value, by pydantic's name for the mistake.
NOT_OF_A_TYPE = {
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "int_parsing": "is not a whole number",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "string_type": "is not text (put it in quotes)",
    "bool_type": "is not true or false",
    "model_type": "is a value, but this is a group of settings",
    "model_attributes_type": "is a value, but this is a group of settings",
}
# Letters of a value that are shown: it may be a whole text.
SHOWN = 80


def read_settings(kind: type[S], path: Path, changes: Sequence[str] = ()) -> S:
    """The settings in a TOML file, after changes of the form 'a.b=value'."""
    return parse_settings(kind, changed(read_toml(path), changes), place=str(path))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a folder; name a .toml file") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def parse_settings(kind: type[S], values: Mapping[str, Any], place: str = "", group: str = "") -> S:
    """`values` as settings of a kind; raises one SettingsError that lists every problem.

    `place` is the file they are from, `group` the path in it.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        before = f"{place}: " if place else ""
        raise SettingsError(*(before + problem for problem in problems(kind, error, group))) from None


def changed(values: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """`values` with changes of the form 'a.b=value'; a value is read as TOML, or else taken as text."""
    result = dict(values)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path.strip():
            raise SettingsError(f"--set {change}: write it as name=value, for example model.width=256")
        *parents, name = path.strip().split(".")
        group = result
        for parent in parents:
            inner = group.get(parent, {})
            if not isinstance(inner, Mapping):
                raise SettingsError(f"--set {change}: {parent} is a value, not a group of settings")
            group[parent] = group = dict(inner)
        group[name] = _toml_value(text.strip())
    return result


def settings_toml(settings: Settings) -> str:
    """The settings as TOML, complete; None is left out, as TOML has no word for it."""
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def problems(kind: type[Settings], error: ValidationError, group: str = "") -> Iterator[str]:
    """One sentence per mistake, in the order of the settings; `group` is the path to them."""
    details = error.errors()
    for detail in details:
        if detail["type"] == "too_short" and any(_inside(other, detail) for other in details):
            continue  # pydantic counts only the items that are right
        inner, parent = _locate(kind, detail["loc"])
        path = ".".join(part for part in (group, inner) if part)
        around = path.rpartition(".")[0]
        known = [f"{around}.{name}" for name in parent.names()] if parent else []
        retired = detail["type"] in ("extra_forbidden", "literal_error")
        said = renaming(path, detail["input"], known) if retired else None
        said = said or sentence(detail, parent, around)
        yield f"{path}: {said}" if path else said


def _inside(mistake: ErrorDetails, whole: ErrorDetails) -> bool:
    depth = len(whole["loc"])
    return len(mistake["loc"]) > depth and mistake["loc"][:depth] == whole["loc"]


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _locate(kind: type[Settings], loc: tuple[int | str, ...]) -> tuple[str, type[Settings] | None]:
    """The dotted path a user wrote, without the tags of unions, and the group in which the mistake is."""
    words: list[str] = []
    here: Any = kind
    parent: type[Settings] | None = kind
    for part in loc:
        members = {_tag(member): member for member in _members(here)}
        if isinstance(part, str) and part in members and len(members) > 1:
            here = members[part]
            parent = here
            continue
        if isinstance(part, int):
            words.append(str(part))
            continue
        group = next((m for m in members.values() if part in m.model_fields), None)
        parent = group or next(iter(members.values()), None)
        words.append(part)
        here = group.model_fields[part].annotation if group else None
    return ".".join(words), parent


def _members(annotation: Any) -> list[type[Settings]]:
    """The settings classes that an annotation admits."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [member for inner in typing.get_args(annotation) for member in _members(inner)]
    return []


def _tag(kind: type[Settings]) -> str:
    field = kind.model_fields.get("kind")
    return str(field.default) if field else kind.__name__


def sentence(detail: ErrorDetails, parent: type[Settings] | None = None, group: str = "") -> str:
    """What is wrong with a value, in words; `parent` is the group of settings that it is in, at a path."""
    context, value = detail.get("ctx", {}), detail["input"]
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            return "unknown setting" + meant(_near(parent, name, group) if parent else None)
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
        case kind if kind in NOT_OF_A_TYPE:
            return f"{_shown(value)} {NOT_OF_A_TYPE[kind]}{_as_group(parent, name, value)}"
        case _:
            # pydantic's own words, with the value in the place of its kind: "Input should be greater than 0".
            _, should, rest = detail["msg"].partition(" should ")
            return f"{_shown(value)} should {rest}" if should else detail["msg"].lower()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _near(group: type[Settings], name: str, path: str) -> str | None:
    """What may have been meant: a setting of this name in a group inside, in full, or one alike here."""
    inside = (
        ".".join(filter(None, (path, inner, name)))
        for inner, field in group.model_fields.items()
        if any(name in member.names() for member in _members(field.annotation))
    )
    return next(inside, None) or nearest(name, group.names())


def _as_group(group: type[Settings] | None, name: str, value: object) -> str:
    """How to write a group of which only the kind was given."""
    field = group.model_fields.get(name) if group else None
    kinds = [_tag(member) for member in _members(field.annotation)] if field else []
    return f'; write {{ kind = "{value}" }}' if value in kinds else ""

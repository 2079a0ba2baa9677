"""Validation of arguments passed from Python: texts, and options as frozen dataclasses."""

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from clearhead.config import describe
from clearhead.errors import SettingsError, TextError, closest_match, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

D = TypeVar("D", bound="DataclassInstance")


@dataclass(frozen=True)
class Options:
    """Base class of option sets: a subclass is a frozen dataclass whose fields are the keyword arguments.

    Numpy and torch scalars become Python numbers; fields of a wrong type are reported all at once. A subclass
    that checks ranges too extends `__post_init__`.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _as_python(getattr(self, field.name)))
        check_types(self)


def check_types(options: "DataclassInstance") -> None:
    """Raise one SettingsError that lists every field whose value is not of its annotated type."""
    problems = []
    for name, adapter in _adapters(type(options)).items():
        try:
            adapter.validate_python(getattr(options, name), strict=True)
        except ValidationError as error:
            # For a union of types, the deepest error is the most specific one.
            problems.append(f"{name}: {describe(max(error.errors(), key=lambda one: len(one['loc'])))}")
    if problems:
        raise SettingsError(*problems)


def options_of(kind: type[D], given: Mapping[str, Any]) -> D:
    """Keyword arguments as options of a kind; unknown names are reported with a suggestion."""
    names = [field.name for field in fields(kind)]
    if unknown := [name for name in given if name not in names]:
        choices = f"; choose from {', '.join(names)}"
        raise SettingsError(
            *(f"{name}: unknown{did_you_mean(closest_match(name, names)) or choices}" for name in unknown)
        )
    return kind(**{name: _as_python(value) for name, value in given.items()})


def check_text(text: object, name: str = "text") -> None:
    """Raise TextError unless the argument of this name is a string."""
    if not isinstance(text, str):
        raise TextError(f"{name}: {text!r:.40} is of type {type(text).__name__}; pass a str")


def as_texts(texts: str | Iterable[str], name: str = "text") -> list[str]:
    """One text or several as a list; raises TextError with the number of an item that is no string."""
    several = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    for number, text in enumerate(several, start=1):
        check_text(text, f"{name} {number}")
    return several


def _as_python(value: Any) -> Any:
    """A numpy or torch scalar as a Python number; other values unchanged."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


@cache
def _adapters(kind: type) -> dict[str, TypeAdapter[Any]]:
    return {name: TypeAdapter(hint) for name, hint in typing.get_type_hints(kind).items()}

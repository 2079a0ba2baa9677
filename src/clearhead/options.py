"""What is given from Python, checked before any work: texts, and wishes that are arguments with names."""

import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from clearhead.config import sentence
from clearhead.errors import SettingsError, TextError, meant, nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

D = TypeVar("D", bound="DataclassInstance")


def check_text(text: object, place: str = "text") -> None:
    """Whether it is one text."""
    if not isinstance(text, str):
        raise TextError(f"{place}: {text!r:.40} is of type {type(text).__name__}; give one text, as a str")


def listed(texts: str | Iterable[str], place: str = "text") -> list[str]:
    """One text, or several in their order; what is none is named."""
    several = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    for number, text in enumerate(several, start=1):
        check_text(text, f"{place} {number}")
    return several


def options_of(kind: type[D], given: Mapping[str, Any]) -> D:
    """Arguments with names as wishes of a kind; unknown ones are named."""
    names = [field.name for field in fields(kind)]
    unknown = [name for name in given if name not in names]
    if unknown:
        others = f"; there are {', '.join(names)}"
        raise SettingsError(*(f"{name}: unknown{meant(nearest(name, names)) or others}" for name in unknown))
    return kind(**{name: _plain(value) for name, value in given.items()})


def check_types(options: "DataclassInstance") -> None:
    """Refuses fields that are not of the type which their class says, all at once."""
    problems = []
    for name, adapter in _adapters(type(options)).items():
        try:
            adapter.validate_python(getattr(options, name), strict=True)
        except ValidationError as error:
            # Of a value that may be one thing or another, the innermost problem is the nearest.
            problems.append(f"{name}: {sentence(max(error.errors(), key=lambda one: len(one['loc'])))}")
    if problems:
        raise SettingsError(*problems)


def _plain(value: Any) -> Any:
    """A number of numpy or torch as Python has it; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


@cache
def _adapters(kind: type) -> dict[str, TypeAdapter[Any]]:
    return {name: TypeAdapter(hint) for name, hint in typing.get_type_hints(kind).items()}

"""Validation of arguments passed from Python: texts, and options as frozen dataclasses."""

import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from clearhead.config import describe
from clearhead.errors import SettingsError, TextError


@dataclass(frozen=True)
class Options:
    """Base class of option sets: a subclass is a frozen dataclass whose fields are the keyword arguments.

    Numpy and torch scalars become Python numbers; fields of a wrong type are reported all at once. A subclass
    that checks ranges too extends `__post_init__`.
    """

    def __post_init__(self) -> None:
        problems = []
        for name, adapter in _adapters(type(self)).items():
            value = getattr(self, name)
            if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
                value = value.item()
            object.__setattr__(self, name, value)
            try:
                adapter.validate_python(value, strict=True)
            except ValidationError as error:
                # For a union of types, the deepest error is the most specific one.
                problems.append(f"{name}: {describe(max(error.errors(), key=lambda one: len(one['loc'])))}")
        if problems:
            raise SettingsError(*problems)


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


@cache
def _adapters(kind: type) -> dict[str, TypeAdapter[Any]]:
    return {name: TypeAdapter(hint) for name, hint in typing.get_type_hints(kind).items()}

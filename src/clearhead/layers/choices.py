"""Settings that name an entry of a table, so that a new entry works in recipes too."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


def choose(table: Mapping[str, T], name: str) -> T:
    """The entry of that name; raises ValueError with all names if there is none."""
    OneOf(table).check(name)
    return table[name]


class OneOf:
    """Marks a setting as a key of one of these tables: `Annotated[str, OneOf(SCORES)]`."""

    def __init__(self, *tables: Mapping[str, Any]):
        self.tables = tables

    @property
    def names(self) -> list[str]:
        """All keys, in order."""
        return [name for table in self.tables for name in table]

    def check(self, name: str) -> str:
        """The name itself, if it is a key."""
        if name not in self.names:
            raise ValueError(f"{name!r} is not one of {', '.join(self.names)}")
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

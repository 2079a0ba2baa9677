"""What is wrong with an option is said by the name that it has on the command line."""

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

from clearhead.errors import SettingsError


class Command(TyperCommand):
    """Wishes have Python's names where they are checked: top_p is --top-p to who called this."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            options = {str(param.name): _option(param) for param in self.params}
            raise SettingsError(*(_renamed(problem, options) for problem in error.problems)) from None


def refusal(error: Any) -> str:
    """Why a command was not begun; nothing where the help has been shown instead."""
    if error.__cause__ is not None and getattr(error, "param", None):
        from pydantic import ValidationError

        from clearhead.config import describe

        if isinstance(error.__cause__, ValidationError):
            # Its own words leave out the value.
            return f"{_option(error.param)}: {describe(error.__cause__.errors()[0])}"
    return " ".join(error.format_message().split())


def _option(param: Any) -> str:
    """As it is written; of several names, the first long one."""
    return next((name for name in param.opts if name.startswith("--")), param.opts[0])


def _renamed(problem: str, options: Mapping[str, str]) -> str:
    name, colon, rest = problem.partition(":")
    return f"{options.get(name, name)}{colon}{rest}"

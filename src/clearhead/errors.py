"""Errors that a user can fix; the command line prints one line for each problem and exits with code 2.

ClearheadError
├── SettingsError   an unknown, invalid or contradictory setting, option or argument
├── DataError       a data file that cannot be read or used
├── ModelError      a model folder that is missing, damaged or does not fit
├── TextError       a text that cannot be processed: too long, unknown language
└── TrainingError   a run that cannot start or continue: diverged, folder in use, disk full
    └── RankError   another process of a distributed run has ended
"""

import difflib
from collections.abc import Iterable


class ClearheadError(Exception):
    """The message names location and value, and says how to fix the problem."""


class SettingsError(ClearheadError):
    """All problems found in one validation, so that users can fix them together."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class DataError(ClearheadError): ...


class ModelError(ClearheadError): ...


class TextError(ClearheadError): ...


class TrainingError(ClearheadError): ...


class RankError(TrainingError): ...


def closest_match(name: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The choice most similar to a misspelled name, or None if all similarities are below the cutoff."""
    return next(iter(difflib.get_close_matches(name, list(choices), 1, cutoff)), None)


def did_you_mean(match: str | None) -> str:
    """The suggestion at the end of an error message; empty without a match."""
    return f" (did you mean {match}?)" if match else ""

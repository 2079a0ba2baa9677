"""What can go wrong in a way the user can mend; the command line prints each as one line and exits with 2.

ClearheadError
├── SettingsError   a recipe, option or argument is unknown, wrong or contradictory
├── DataError       a file of text cannot be read or used
├── ModelError      a model folder is missing, broken or does not fit
├── TextError       a text cannot be processed: too long, unknown language
└── TrainingError   a run cannot start or go on: diverged, folder in use, disk full
    └── RankError   another process of the run has ended
"""

import difflib
from collections.abc import Iterable


class ClearheadError(Exception):
    """The message names the place, the value and the way out."""


class SettingsError(ClearheadError):
    """Holds every problem found, so that all can be mended at once."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class DataError(ClearheadError):
    pass


class ModelError(ClearheadError):
    pass


class TextError(ClearheadError):
    pass


class TrainingError(ClearheadError):
    pass


class RankError(TrainingError):
    pass


def nearest(word: str, words: Iterable[str], alike: float = 0.6) -> str | None:
    """The one of the words that a wrong one most likely stands for, if any is so far alike."""
    return next(iter(difflib.get_close_matches(word, list(words), 1, alike)), None)


def meant(word: str | None) -> str:
    """The end of a message that asks whether this word was meant; nothing where there is none."""
    return f" (did you mean {word}?)" if word else ""

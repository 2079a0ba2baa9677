"""What can go wrong in a way the user can mend; the command line prints each as one line and exits with 2.

ClearheadError
├── SettingsError   a recipe, option or argument is unknown, wrong or contradictory
├── DataError       a file of text cannot be read or used
├── ModelError      a model folder is missing, broken or does not fit
├── TextError       a text cannot be processed: too long, unknown language
└── TrainingError   a run cannot start or go on: diverged, folder in use, disk full
    └── RankError   another process of the run has ended
"""


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

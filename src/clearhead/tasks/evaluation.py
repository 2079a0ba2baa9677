"""The result of an evaluation, which the command line prints without knowing the task."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

TokenCallback = Callable[[int], None]
"""Receives the number of tokens of each text that a model has generated."""


def ignore_tokens(tokens: int) -> None:
    """A callback that does nothing."""


@dataclass(frozen=True)
class Evaluation:
    """Scores on test data, as lines to read and as a record for programs."""

    lines: tuple[str, ...]
    record: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """What a reader of the scores should know: skipped lines, unknown characters."""


class Evaluable(Protocol):
    """A model in use that scores itself on test data."""

    task: ClassVar[str]
    evaluate_unit: ClassVar[str]
    """What `progress` counts, such as "sentence"."""

    evaluate: Callable[..., Evaluation]
    """`evaluate(folder, *, progress, reading, …)`: scores on the data that the other arguments name, which
    `clearhead evaluate` takes as options of these names, or on the data held out in the model's folder."""

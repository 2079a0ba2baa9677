"""The result of an evaluation, which the command line prints without knowing the task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from clearhead.data.progress import ProgressCallback


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
    evaluate_options: ClassVar[tuple[str, ...]]
    """The options of `clearhead evaluate` that it takes, such as "text" and "stride"."""
    evaluate_unit: ClassVar[str]
    """What `progress` counts, such as "sentence"."""

    def evaluate(
        self, folder: Path, *, progress: ProgressCallback, reading: ProgressCallback, **options: Any
    ) -> Evaluation:
        """Scores on the data that `options` name, or on the data held out in the model's folder."""
        ...

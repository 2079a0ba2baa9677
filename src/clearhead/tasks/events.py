"""Events of a training run, for the caller to show or record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.evaluation.metric import Metric
from clearhead.training import Report


@dataclass(frozen=True)
class Note:
    """A message about a choice or a finding."""

    text: str


@dataclass(frozen=True)
class Started:
    """Training starts; a resumed run has already done some of the steps."""

    done: int
    steps: int
    validate_every: int = 0
    save_every: int = 0


@dataclass(frozen=True)
class Rescheduled:
    """The run will end at another step than planned, as its time budget or a request to stop demands."""

    step: int
    steps: int


@dataclass(frozen=True)
class Validation:
    """Metrics on held-out data."""

    step: int
    scores: Mapping[str, float]
    """By name: "bleu" over all held-out data, "bleu en-de" over a part of it."""
    best: bool
    seconds: float
    metrics: Sequence[Metric] = ()

    @property
    def loss(self) -> float:
        return self.scores["loss"]

    def text(self) -> str:
        """The scores as people read them."""
        parts = []
        for metric in self.metrics:
            if metric.name not in self.scores:
                continue
            prefix = f"{metric.name} "
            each = [
                f"{name.removeprefix(prefix)} {value:{metric.format}}"
                for name, value in self.scores.items()
                if name.startswith(prefix)
            ]
            parts.append(metric.text(self.scores[metric.name]) + (f" ({', '.join(each)})" if each else ""))
        return ", ".join(parts)

    def record(self) -> dict[str, float]:
        """The line of metrics.jsonl."""
        return {"step": self.step, **self.scores, "best": self.best, "seconds": self.seconds}


@dataclass(frozen=True)
class Saved:
    """The state of a step is on disk."""

    step: int


@dataclass(frozen=True)
class Finished:
    """The run has ended: its folder holds the model or, if it was interrupted, a state to resume from."""

    folder: Path
    step: int
    interrupted: bool
    reason: str


@dataclass(frozen=True)
class ComparedRow:
    """A model and its parent on one test set."""

    test: str
    """"new" for the data of this run, "old" for that of the parent."""
    variant: str
    """The part of the model that was measured, such as "en-de"; empty if it has none."""
    metric: Metric
    before: float | None
    """None if the parent does not know the variant."""
    after: float


@dataclass(frozen=True)
class Compared:
    """Scores before and after fine-tuning."""

    rows: tuple[ComparedRow, ...]
    parent: str

    def cells(self) -> list[list[str]]:
        """The table as text, its head first."""
        found = [["test set", "metric", "before", "after"]]
        for row in self.rows:
            before = "-" if row.before is None else f"{row.before:{row.metric.format}}"
            test = f"{row.test}, {row.variant}" if row.variant else row.test
            found.append([test, row.metric.label, before, f"{row.after:{row.metric.format}}"])
        return found

    def lines(self) -> list[str]:
        """The table in columns."""
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return [
            "  ".join(
                text.rjust(width) if number > 1 else text.ljust(width)
                for number, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]

    def record(self) -> dict[str, Any]:
        """The table for programs."""
        rows = [
            {"test": row.test, "variant": row.variant, "metric": row.metric.name}
            | {"before": row.before, "after": row.after}
            for row in self.rows
        ]
        return {"parent": self.parent, "compared": rows}


Event = Note | Started | Rescheduled | Report | Validation | Saved | Compared | Finished

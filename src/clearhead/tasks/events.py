"""Events of a training run, for the caller to show or record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


Event = Note | Started | Rescheduled | Report | Validation | Saved | Finished

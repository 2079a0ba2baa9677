"""What a run reports while it trains; whoever iterates over it decides what to show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.evaluation.metric import Metric
from clearhead.training import Report


@dataclass(frozen=True)
class Note:
    """A choice or a finding, in words."""

    text: str


@dataclass(frozen=True)
class Started:
    """Training starts, after the steps that an earlier part of the run has done."""

    done: int
    steps: int


@dataclass(frozen=True)
class Validation:
    """Metrics on held-out data."""

    step: int
    scores: Mapping[str, float]
    """By name; "bleu en-de" is the metric "bleu" of one part of the data."""
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
    step: int


@dataclass(frozen=True)
class Finished:
    """The model is in its folder, or, if the run was interrupted, the state to resume from."""

    folder: Path
    step: int
    interrupted: bool
    reason: str


Event = Note | Started | Report | Validation | Saved | Finished

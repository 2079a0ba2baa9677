"""What a run tells while it goes on; whoever iterates over it decides what to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clearhead.training import Report


@dataclass(frozen=True)
class Note:
    """A choice or a finding, in words."""

    text: str


@dataclass(frozen=True)
class Begun:
    """The steps begin, after those that an earlier part of the run has done."""

    done: int
    steps: int


@dataclass(frozen=True)
class Validation:
    """How the model does on what it does not learn from."""

    step: int
    scores: Mapping[str, float]
    """by name: the loss per token, without smoothing, and what else a task measures"""
    best: bool
    seconds: float

    @property
    def loss(self) -> float:
        return self.scores["loss"]

    @property
    def bleu(self) -> float | None:
        """of several directions, their mean"""
        return self.scores.get("bleu")

    @property
    def by_direction(self) -> dict[str, float]:
        """BLEU of each, where there are several"""
        return {name[5:]: value for name, value in self.scores.items() if name.startswith("bleu ")}

    def measurement(self) -> dict[str, float]:
        """As it is recorded."""
        return {"step": self.step, **self.scores, "best": self.best, "seconds": self.seconds}


@dataclass(frozen=True)
class Saved:
    step: int


@dataclass(frozen=True)
class Finished:
    """The model is in its folder, or, when the run was interrupted, the state from which to go on."""

    folder: Path
    step: int
    interrupted: bool
    reason: str


Event = Note | Begun | Report | Validation | Saved | Finished

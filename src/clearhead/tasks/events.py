"""What a run tells while it goes on; whoever iterates over it decides what to show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """How the model does on sentences it does not learn from."""

    step: int
    loss: float
    """per token, without smoothing"""
    bleu: float | None
    best: bool
    seconds: float
    by_direction: Mapping[str, float] = field(default_factory=dict)
    """BLEU of each, where there are several; then the one above is their mean"""

    def measurement(self) -> dict[str, float | None]:
        """As it is recorded."""
        values = {name: value for name, value in vars(self).items() if name != "by_direction"}
        return values | {f"bleu {name}": value for name, value in self.by_direction.items()}


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

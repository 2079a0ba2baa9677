"""The seam between the one training story and what is trained: subclass Task, add it to TASKS."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from clearhead.checkpoint import Checkpoint
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.evaluation.metric import LOSS, Metric
from clearhead.models import build
from clearhead.tasks.events import Event, Finished, Note
from clearhead.tasks.recipe import Recipe
from clearhead.training import Ranks, StateFolder


class Epochs(Protocol):
    """A corpus in batches, epoch by epoch, for one of several ranks."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[Any]:
        """The batches of an epoch for this rank, after the first `skip` of all ranks together."""
        ...


@dataclass(frozen=True)
class RunContext:
    """Where a run writes, with whom it runs, and who follows its reading of files."""

    out: Path
    ranks: Ranks
    states: StateFolder
    progress: ProgressCallback = ignore_progress

    def processor(self, kind: Any, make: Any) -> Any:
        """The run's processor: made and saved by rank 0 unless an earlier attempt saved it, then loaded."""
        path = self.out / kind.FILE
        if self.ranks.first(lambda: not path.exists()):
            self.ranks.first(lambda: make().save(path))
        return kind.load(path)


class Task(ABC):
    """One thing that a model can be trained for. The run calls the methods in this order."""

    Recipe: ClassVar[type[Recipe]]
    """Its settings; the literal `kind` is its name in TASKS."""
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS,)
    """What `validate` reports; `training.monitor` names the one that selects the best checkpoint."""
    does: ClassVar[str] = "does something else"
    """What its models do, for error messages: "translates"."""
    command: ClassVar[str] = "clearhead explore"
    """The command that uses its models."""
    processor: Any = None
    """Set by `prepare`: what turns raw input into the model's input."""
    data_fingerprint: Any = None
    """Set by `prepare`: equal for the same training data, so that a resumed run can tell."""

    def __init__(self, recipe: Any):
        self.recipe = recipe

    @abstractmethod
    def prepare(self, context: RunContext) -> Iterator[Note]:
        """Reads the data and makes the processor; reports what it finds. Bad data is refused here."""

    def build(self) -> nn.Module:
        """The model with fresh weights."""
        return build(self.recipe.model, self.processor)

    @abstractmethod
    def batches(self, rank: int, ranks: int, batches_per_step: int) -> Epochs:
        """The training batches of one of several ranks."""

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tensor:
        """The loss of a batch, summed over its tokens."""

    def validate(self, model: Any, autocast: AbstractContextManager) -> dict[str, float]:
        """Metrics on held-out data, by name; empty where nothing is held out."""
        return {}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        """The README of the finished model."""
        lines = [f"# {self.recipe.kind}", "", f"Trained with clearhead for {step:,} steps.", ""]
        lines += [f"- {metric.text(scores[metric.name])}" for metric in self.metrics if metric.name in scores]
        return "\n".join(lines) + "\n"

    def fit(self, context: RunContext) -> Generator[Event, None, Finished]:
        """Trains the model by gradient descent; families that count override this."""
        from clearhead.tasks.loop import gradient_descent

        return (yield from gradient_descent(self, context))

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Any:
        """A trained model, ready for use."""
        return checkpoint

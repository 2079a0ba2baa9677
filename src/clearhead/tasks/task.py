"""The interface of a task: subclass Task and add it to TASKS to train a family of your own."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from clearhead.checkpoint import CARD, WEIGHTS, Checkpoint, save_weights, weights
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.evaluation.metric import LOSS, Metric
from clearhead.models import build
from clearhead.tasks.events import Event, Finished, Note
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.records import add_final, naming, write_named
from clearhead.training import Ranks, StateFolder, TimeBudget, Trainer
from clearhead.wording import counted

ONE_STEP = 1
"""The step of a model that is counted or fitted at once."""


class Epochs(Protocol):
    """A corpus in batches, epoch by epoch, for one of several ranks."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[Any]:
        """The batches of an epoch for this rank, after the first `skip` of all ranks together."""
        ...


@dataclass(frozen=True)
class RunContext:
    """The folder, ranks, saved states and time of a run, and the callback for its progress in files."""

    out: Path
    ranks: Ranks
    states: StateFolder
    progress: ProgressCallback = ignore_progress
    budget: TimeBudget | None = None
    decay_on_stop: bool = False
    """After Ctrl-C, decay the learning rate to zero, then publish the model."""

    def processor(self, kind: Any, make: Any) -> Any:
        """The run's processor, loaded from its folder; rank 0 makes and saves it first if it is missing."""
        path = self.out / kind.FILE

        def save() -> None:
            made = make()
            with naming(path):
                made.save(path)

        if self.ranks.first(lambda: not path.exists()):
            self.ranks.first(save)
        return kind.load(path)


class Task(ABC):
    """What a model is trained for. A run calls the methods in this order."""

    Recipe: ClassVar[type[Recipe]]
    """The settings; the literal `kind` is the name in TASKS."""
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS,)
    """The metrics that `validate` reports; `training.monitor` names the one that selects the best weights."""
    does: ClassVar[str] = "does something else"
    """A verb for error messages: this model "translates"."""
    command: ClassVar[str] = "clearhead explore"
    """The command that uses the models."""
    argument: ClassVar[str] = '"..."'
    """What the command takes, as a hint at the end of a run."""
    test_option: ClassVar[str] = " --data FILE"
    """The option of `clearhead evaluate` that names test data."""
    unit: ClassVar[str] = "token"
    """What the loss is a mean over, and training speed is counted in."""
    processor: Any = None
    """Turns raw input into model input, for example a tokenizer; set by `prepare`."""
    data_fingerprint: Any = None
    """Identifies the training data, so that a resumed run notices a change; set by `prepare`."""

    def __init__(self, recipe: Any):
        self.recipe = recipe

    @abstractmethod
    def prepare(self, context: RunContext) -> Iterator[Note]:
        """Reads the data, makes the processor, and reports both; raises DataError for unusable data."""

    def build(self) -> nn.Module:
        """The model with fresh weights."""
        return build(self.recipe.model, self.processor)

    def batches(self, rank: int, ranks: int, batches_per_step: int) -> Epochs:
        """The training batches of one of several ranks; needed by the default `fit`."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The loss of a batch, summed over its tokens; needed by the default `fit`."""
        raise NotImplementedError

    def trainer(self, model: Any, ranks: Ranks) -> Trainer:
        """Takes the optimizer steps of the default `fit`."""
        return Trainer(model, self.loss, self.recipe.training, ranks)

    def validate(self, model: Any, autocast: AbstractContextManager) -> dict[str, float]:
        """Metrics on held-out data, by name; empty where nothing is held out."""
        return {}

    def card(self, model: nn.Module, step: int, scores: Mapping[str, float]) -> str:
        """The README of the finished model."""
        lines = [f"# {self.recipe.kind}", "", f"Trained with clearhead for {counted(step, 'step')}.", ""]
        lines += [f"- {metric.text(scores[metric.name])}" for metric in self.metrics if metric.name in scores]
        return "\n".join(lines) + "\n"

    def fit(self, context: RunContext) -> Generator[Event, None, Finished]:
        """Trains by gradient descent; models that count instead override this."""
        from clearhead.tasks.loop import gradient_descent

        return (yield from gradient_descent(self, context))

    @classmethod
    def serves(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Other tasks whose commands take a trained model too, by its saved settings."""
        return ()

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Any:
        """A trained model, ready for use."""
        return checkpoint


def publish(task: Task, model: nn.Module, scores: Mapping[str, float], out: Path) -> None:
    """Writes a model that was fitted in one step, its scores and its card."""
    add_final(out, ONE_STEP, scores)
    write_named(out / CARD, task.card(model, ONE_STEP, scores))
    # Last: a folder counts as a model once it has weights.
    save_weights(weights(model), out / WEIGHTS)

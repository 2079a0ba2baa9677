"""The training loop: batches in, reports out, one optimizer step each."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from clearhead.checkpoint import set_weights, weights
from clearhead.errors import TrainingError
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.devices import choose_device, choose_precision
from clearhead.training.optimizer import Optimizer
from clearhead.training.randomness import random_state, set_random_state
from clearhead.training.schedule import rate


class Trainable(Protocol):
    """What the trainer wants of a batch."""

    @property
    def tokens(self) -> int: ...
    @property
    def padding(self) -> float: ...
    def to(self, device: torch.device, non_blocking: bool = False) -> Self: ...


Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=Trainable)
Loss = Callable[[Model, Batch], Tensor]
"""The sum of the losses of a batch, over its tokens."""


@dataclass(frozen=True)
class Report:
    """One step in numbers."""

    step: int
    loss: float
    """per token"""
    tokens: int
    tokens_per_second: float
    padding: float
    """share of the cells that hold no word"""
    rate: float
    gradient: float
    """norm, before clipping"""
    seconds: float
    """of this step, waiting for its batches included"""


class Trainer(Generic[Model, Batch]):
    """A model in training: moves it to its device and takes steps.

    The device is waited for once a step, for the loss and the gradient's norm together: only if both are
    finite is the step taken.
    """

    def __init__(self, model: Model, loss: Loss[Model, Batch], config: TrainingConfig, width: int):
        self.device = choose_device(config.device)
        self.precision = choose_precision(config.precision, self.device, width)
        self.model = model.to(self.device)
        self.config = config
        self.width = width
        self.step = 0
        self.optimizer = Optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.ema) if config.ema else None
        self._loss = torch.compile(loss, dynamic=True) if config.compile else loss

    def steps(self, batches: Iterable[Batch]) -> Iterator[Report]:
        """Takes the steps that are left, one per report, for as long as there are batches."""
        batches = iter(batches)
        while self.step < self.config.steps:
            began = time.perf_counter()
            group = list(islice(batches, self.config.accumulate))
            if len(group) < self.config.accumulate:
                return
            yield self._take(group, began)

    def autocast(self) -> torch.autocast:
        """The precision of the run, for evaluating the model as it is trained."""
        return torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32)

    def weights(self) -> dict[str, Tensor]:
        """What would be published now: the moving average where there is one, else the model's own."""
        return self.average.weights() if self.average else weights(self.model)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on but the place in the data; the tensors are those in use, not copies."""
        state = {"step": self.step, "weights": self.weights(), "optimizer": self.optimizer.state_dict()}
        if self.average:
            state |= {"model": weights(self.model), "average": {"updates": self.average.updates}}
        return state | {"random": random_state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same model and optimizer."""
        if bool(self.average) != ("average" in state):
            raise TrainingError(
                "training.ema: the run began with another choice; resume with the same settings"
            )
        set_weights(self.model, state.get("model", state["weights"]), place="the saved state")
        if self.average:
            self.average.load(state["weights"], state["average"]["updates"])
        self.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"])
        self.step = state["step"]

    def _take(self, group: list[Batch], began: float) -> Report:
        """One step along the gradient of the mean loss over all tokens of the group."""
        self.model.train()
        self.optimizer.zero_grad()
        total, tokens = torch.zeros((), device=self.device), 0
        for batch in group:
            with self.autocast():
                loss = self._loss(self.model, batch.to(self.device, non_blocking=True))
            loss.backward()
            total, tokens = total + loss.detach(), tokens + batch.tokens
        gradients = [p.grad for p in self.optimizer.parameters if p.grad is not None]
        loss, norm = torch.stack([total, get_total_norm(gradients).to(total)]).div(tokens).tolist()
        self._check(loss, norm)
        # The gradient is that of the sum; one pass makes it that of the mean, and shortens it if need be.
        shorter = min(1.0, self.config.clip / (norm + 1e-6)) if self.config.clip else 1.0
        torch._foreach_mul_(gradients, shorter / tokens)  # pyright: ignore[reportPrivateImportUsage]
        speed = rate(self.config.schedule, self.step + 1, self.config.steps, self.width)
        self.optimizer.step(speed)
        if self.average:
            self.average.update()
        self.step += 1
        seconds = time.perf_counter() - began
        padding = sum(batch.padding for batch in group) / len(group)
        return Report(self.step, loss, tokens, tokens / seconds, padding, speed, norm, seconds)

    def _check(self, loss: float, norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self.optimizer.zero_grad()
        raise TrainingError(
            f"step {self.step + 1}: the run diverged (loss {loss:g}, gradient {norm:g}); the weights are"
            f" still those of step {self.step}; lower the learning rate (training.schedule), lengthen its"
            " warm-up, or lower training.clip"
        )

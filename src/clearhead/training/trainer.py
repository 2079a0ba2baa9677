"""The training loop: batches in, reports out, one optimizer step each."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Generic

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from clearhead.checkpoint import set_weights, weights
from clearhead.errors import TrainingError
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.devices import choose_device, choose_precision
from clearhead.training.optimizer import Optimizer
from clearhead.training.passes import Batch, Loss, Model, Objective, Passes, RecordedPasses, Regions
from clearhead.training.randomness import random_state, set_random_state
from clearhead.training.schedule import rate

# Steps that a GPU may have before it, so that it never waits for the processor.
LAG = 2

log = logging.getLogger(__name__)


class DivergedError(TrainingError):
    """Loss or gradient are no numbers any more."""


class Numbers:
    """Numbers on their way from a device: whoever reads them waits for them, and for nothing later."""

    def __init__(self, tensor: Tensor):
        self._host = tensor
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    @property
    def known(self) -> bool:
        """Whether nobody need wait for them any more."""
        return not self._host.is_pinned() or self._event.query()

    @cached_property
    def values(self) -> list[float]:
        if self._host.is_pinned():
            self._event.synchronize()
        return self._host.tolist()


@dataclass(frozen=True)
class Report:
    """One step in numbers."""

    step: int
    tokens: int
    tokens_per_second: float
    padding: float
    """share of the cells that hold no word"""
    rate: float
    seconds: float
    """of this step, waiting for its batches included"""
    measured: Numbers

    @property
    def known(self) -> bool:
        """Whether loss and gradient are there without waiting."""
        return self.measured.known

    @property
    def loss(self) -> float:
        """Per token; waits for the device."""
        return self.measured.values[0]

    @property
    def gradient(self) -> float:
        """The norm before clipping; waits for the device."""
        return self.measured.values[1]


class Trainer(Generic[Model, Batch]):
    """A model in training: moves it to its device and takes steps.

    Only if loss and gradient are finite is a step taken. A GPU decides that by itself and goes on; the
    processor hears of it some steps later, and weights and averages are by then still those of before.
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
        self.parts = 1
        self._passes = self._make_passes(loss)
        self._broken = torch.zeros((), device=self.device)
        self._unread: deque[Report] = deque()

    def steps(self, batches: Iterable[Batch]) -> Iterator[Report]:
        """Takes the steps that are left, one per report, for as long as there are batches."""
        batches = iter(batches)
        while self.step < self.config.steps:
            began = time.perf_counter()
            group = list(islice(batches, self.config.accumulate))
            if len(group) < self.config.accumulate:
                break
            report = self._take(group, began)
            self._unread.append(report)
            self.settle(LAG if self.device.type == "cuda" and self.optimizer.skips else 0)
            yield report
        self.settle()

    def settle(self, lag: int = 0) -> None:
        """Waits for all steps but the last few, and sees whether they were good."""
        while len(self._unread) > lag:
            self._check(self._unread.popleft())

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
            state["model"] = weights(self.model)
        return state | {"random": random_state(), "parts": self.parts}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same model and optimizer."""
        if bool(self.average) != ("model" in state):
            raise TrainingError(
                "training.ema: the run began with another choice; resume with the same settings"
            )
        set_weights(self.model, state.get("model", state["weights"]), place="the saved state")
        if self.average:
            self.average.load(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"])
        self.step, self.parts = state["step"], state["parts"]

    def _make_passes(self, loss: Loss[Model, Batch]) -> Passes[Batch]:
        compiled = self.config.compile
        if self.device.type == "cuda":
            regions = Regions(self.model) if compiled != "off" else None
            return RecordedPasses(Objective(self.model, loss), self.device, self.autocast, regions)
        chosen = torch.compile(loss, dynamic=True) if compiled == "on" else loss
        return Passes(Objective(self.model, chosen), self.device, self.autocast)

    def _take(self, group: list[Batch], began: float) -> Report:
        """One step along the gradient of the mean loss over all tokens of the group."""
        self.model.train()
        total, tokens = self._gradients(group), sum(batch.tokens for batch in group)
        gradients = [p.grad for p in self.optimizer.parameters if p.grad is not None]
        loss, norm = torch.stack([total, get_total_norm(gradients).to(total)]).div(tokens)
        self._broken = torch.maximum(self._broken, (~(loss + norm).isfinite()).float())
        measured = Numbers(torch.stack([loss, norm]))
        speed = rate(self.config.schedule, self.step + 1, self.config.steps, self.width)
        self.step += 1
        if self.optimizer.skips or all(map(math.isfinite, measured.values)):
            self._move(gradients, norm, tokens, speed)
        seconds = time.perf_counter() - began
        padding = sum(batch.padding for batch in group) / len(group)
        return Report(self.step, tokens, tokens / seconds, padding, speed, seconds, measured)

    def _move(self, gradients: list[Tensor], norm: Tensor, tokens: int, speed: float) -> None:
        # The gradient is that of the sum; one pass makes it that of the mean, and shortens it if need be.
        shorter = (self.config.clip / (norm + 1e-6)).clamp(max=1.0) if self.config.clip else norm.new_ones(())
        torch._foreach_mul_(gradients, shorter / tokens)  # pyright: ignore[reportPrivateImportUsage]
        self.optimizer.step(speed, self._broken)
        if self.average:
            self.average.update(self.step, self._broken)

    def _gradients(self, group: list[Batch]) -> Tensor:
        """The summed loss, its gradients being in the parameters; in smaller parts where memory is short."""
        while True:
            parts = [part for batch in group for part in batch.parts(self.parts)]
            try:
                self._passes.clear()
                return torch.stack([self._passes(part) for part in parts]).sum()
            except torch.OutOfMemoryError as error:
                shortage = str(error).partition(".")[0]
            # Outside of the exception, which would keep the tensors of the failed pass alive.
            self._passes.forget()
            if len(parts) == sum(len(batch.parts(1 << 30)) for batch in group):
                raise TrainingError(
                    f"out of memory with a single row ({shortage}); make batches.places or the model smaller"
                )
            self.parts *= 2
            log.warning(
                "the batch does not fit into memory: it is computed in %d parts, which gives the same steps",
                self.parts,
            )

    def _check(self, report: Report) -> None:
        if math.isfinite(report.loss) and math.isfinite(report.gradient):
            return
        self._passes.forget()
        self._unread.clear()
        self._broken.zero_()
        self.step = report.step - 1
        raise DivergedError(
            f"step {report.step}: the run diverged (loss {report.loss:g}, gradient {report.gradient:g}); the"
            f" weights are still those of step {self.step}; lower the learning rate (training.schedule),"
            " lengthen its warm-up, or lower training.clip"
        )

"""The training loop: batches in, one optimizer step and one report each."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Generic

import torch
from torch import Tensor

from clearhead.checkpoint import set_weights, weights
from clearhead.errors import TrainingError
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.devices import choose_device, choose_precision
from clearhead.training.optimizer import Optimizer
from clearhead.training.parallel import Batch, Loss, Model, parallel
from clearhead.training.randomness import random_state, seed_rank, set_random_state
from clearhead.training.ranks import Ranks
from clearhead.training.schedule import ScheduleConfig, learning_rate_at

# Steps queued on a GPU, so that it never waits for the processor.
LAG = 2

log = logging.getLogger(__name__)


class DivergedError(TrainingError):
    """The loss or the gradient is no longer finite."""


class DeviceNumbers:
    """Numbers on their way from a device; reading them waits for them, and for nothing later."""

    def __init__(self, tensor: Tensor):
        self._host = tensor
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    @property
    def ready(self) -> bool:
        """Whether they have arrived."""
        return not self._host.is_pinned() or self._event.query()

    @cached_property
    def values(self) -> list[float]:
        if self._host.is_pinned():
            self._event.synchronize()
        return self._host.tolist()


@dataclass(frozen=True)
class Report:
    """The measurements of one step, over all ranks."""

    step: int
    learning_rate: float
    seconds: float
    """Duration of the step, including the wait for its batches."""
    measured: DeviceNumbers = field(repr=False)

    @property
    def ready(self) -> bool:
        """Whether reading does not have to wait for the device."""
        return self.measured.ready

    @property
    def loss(self) -> float:
        """Per token."""
        return self.measured.values[0]

    @property
    def gradient(self) -> float:
        """The norm before clipping."""
        return self.measured.values[1]

    @property
    def tokens(self) -> int:
        return round(self.measured.values[2])

    @property
    def padding(self) -> float:
        """The fraction of positions that hold no token."""
        return self.measured.values[3]

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class Trainer(Generic[Model, Batch]):
    """Trains a model with `loss(model, batch)`, the summed loss of a batch; alone or with other ranks.

    A step with a non-finite loss or gradient is not taken. A GPU decides that by itself and continues; the
    processor notices some steps later, when weights and averages are still those from before the step.
    """

    def __init__(
        self, model: Model, loss: Loss[Model, Batch], config: TrainingConfig, ranks: Ranks | None = None
    ):
        self.ranks = ranks or Ranks()
        self.device = choose_device(config.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.precision = choose_precision(config.precision, self.device, model)
        self.batches_per_step = self.ranks.batches_per_step(config.accumulate)
        self.parallel = parallel(config, model, loss, self.device, self.ranks)
        self.model, self.config, self.step = model, config, 0
        self.optimizer = Optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.ema_decay) if config.ema_decay else None
        self.parts = 1
        self._passes = self.parallel.passes(self.autocast)
        self._diverged = torch.zeros((), device=self.device)
        self._unread: deque[Report] = deque()
        self._lag = LAG if self.device.type == "cuda" and self.optimizer.skips else 0
        if self.ranks.rank:
            seed_rank(config.seed, self.step, self.ranks.rank)

    def steps(self, batches: Iterable[Batch]) -> Iterator[Report]:
        """Takes the remaining steps, one per report, as long as this rank has batches."""
        batches = iter(batches)
        share = self.ranks.share(self.batches_per_step)
        while self.step < self.config.steps:
            started = time.perf_counter()
            group = list(islice(batches, share))
            if len(group) < share:
                break
            report = self._take_step(group, started)
            self._unread.append(report)
            self.synchronize(self._lag)
            yield report
        self.synchronize()

    def reschedule(self, schedule: ScheduleConfig, steps: int) -> None:
        """Takes the remaining steps by another schedule, up to another last step."""
        self.config = self.config.model_copy(update={"schedule": schedule, "steps": steps})

    def synchronize(self, lag: int = 0) -> None:
        """Waits for all steps except the last `lag`, and raises DivergedError if one diverged."""
        while len(self._unread) > lag:
            self._check(self._unread.popleft())

    def autocast(self) -> torch.autocast:
        """The precision of the run, to evaluate the model as it is trained."""
        return torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32)

    def weights(self) -> dict[str, Tensor]:
        """The moving average if there is one, else the model's weights."""
        return self.average.weights() if self.average else weights(self.model)

    def full_weights(self) -> dict[str, Tensor]:
        """The same, unsharded, in rank 0; a collective call."""
        return self.parallel.gather(self.weights())

    def evaluation_model(self) -> AbstractContextManager[Model]:
        """The model with these weights, in rank 0; a collective call."""
        return self.parallel.evaluation_model(self.average)

    def state(self) -> dict[str, Any]:
        """Everything needed to resume but the position in the data, not copied; a collective call."""
        state = {"step": self.step, "weights": self.weights(), "optimizer": self.optimizer.state_dict()}
        if self.average:
            state["model"] = weights(self.model)
        random = {str(rank): one for rank, one in enumerate(self.ranks.gather(random_state()))}
        parts = self.ranks.gather(self.parts)
        return state | {"random": random, "parts": parts, "batches_per_step": self.batches_per_step}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state of this model; if the number of ranks changed, with new random numbers."""
        self.ranks.share(state["batches_per_step"])
        state = self.parallel.distribute(state)
        if bool(self.average) != ("model" in state):
            raise TrainingError(
                "training.ema_decay: the run was started with another value; resume with the same settings"
            )
        set_weights(self.model, state.get("model", state["weights"]), "the saved state")
        if self.average:
            self.average.load(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.batches_per_step = state["step"], state["batches_per_step"]
        self.parts = max(state["parts"])
        if len(state["random"]) == self.ranks.count:
            self.parts = state["parts"][self.ranks.rank]
            set_random_state(state["random"][str(self.ranks.rank)])
        else:
            seed_rank(self.config.seed, self.step, self.ranks.rank)

    def _take_step(self, group: list[Batch], started: float) -> Report:
        """One step along the gradient of the mean loss over all tokens of the group, of all ranks."""
        if not self.model.training:
            self.model.train()
        total = self._gradients(group)
        counted = (sum(batch.tokens for batch in group), sum(batch.padding for batch in group))
        total, tokens, padding = self.ranks.sum(
            torch.stack([total, *(total.new_full((), float(count)) for count in counted)])
        )
        found = [p.grad for p in self.optimizer.parameters if p.grad is not None]
        gradients = self.parallel.reduce_gradients(found)
        loss, norm = total / tokens, self.parallel.norm(gradients).to(total) / tokens
        self._diverged = torch.maximum(self._diverged, (~(loss + norm).isfinite()).float())
        measured = DeviceNumbers(torch.stack([loss, norm, tokens, padding / self.batches_per_step]))
        learning_rate = learning_rate_at(self.config.schedule, self.step + 1, self.config.steps)
        self.step += 1
        if self.optimizer.skips or all(map(math.isfinite, measured.values)):
            self._update(norm, tokens, learning_rate)
        # Before the time is taken: a step lasts as long as the device needs for one.
        self.synchronize(max(0, self._lag - 1))
        return Report(self.step, learning_rate, time.perf_counter() - started, measured)

    def _update(self, norm: Tensor, tokens: Tensor, learning_rate: float) -> None:
        # The gradient is that of the summed loss: divided by the tokens, and clipped, it is that of the mean.
        limit = self.config.clip_norm
        excess = ((norm + 1e-6) / limit).clamp(min=1.0) if limit else norm.new_ones(())
        self.optimizer.step(learning_rate, self._diverged, (excess * tokens).float())
        if self.average:
            self.average.update(self.step, self._diverged)

    def _gradients(self, group: list[Batch]) -> Tensor:
        """The summed loss, with its gradients in the parameters; in parts if memory is short."""
        while True:
            parts = [part for batch in group for part in batch.split(self.parts)]
            try:
                self._passes.zero_grad()
                return torch.stack([self._passes(part) for part in parts]).sum()
            except torch.OutOfMemoryError as error:
                shortage = str(error).partition(".")[0]
            # Outside of the exception, which would keep the tensors of the failed pass alive.
            self._passes.release()
            if not self.parallel.splits_on_shortage:
                raise TrainingError(
                    f"rank {self.ranks.rank}: out of memory ({shortage}); in a new folder, lower "
                    "batches.tokens and raise training.accumulate by the same factor, or use more ranks"
                )
            if len(parts) == sum(len(batch.split(1 << 30)) for batch in group):
                raise TrainingError(
                    f"out of memory with a single row ({shortage}); make batches.row_length or "
                    "the model smaller"
                )
            self.parts *= 2
            log.warning(
                "out of memory: batches are now computed in %d parts, which gives the same steps", self.parts
            )

    def _check(self, report: Report) -> None:
        if math.isfinite(report.loss) and math.isfinite(report.gradient):
            return
        self._passes.release()
        self._unread.clear()
        self._diverged.zero_()
        self.step = report.step - 1
        raise DivergedError(
            f"step {report.step}: the run diverged (loss {report.loss:g}, gradient norm "
            f"{report.gradient:g}); the weights are still those of step {self.step}; lower the learning rate "
            "(training.schedule), use a longer warm-up, or lower training.clip_norm"
        )

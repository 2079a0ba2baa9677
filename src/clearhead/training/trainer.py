"""The training loop: batches in, reports out, one optimizer step each."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
from clearhead.training.parallel import parallel
from clearhead.training.passes import Batch, Loss, Model, Passes
from clearhead.training.randomness import begin_stream, random_state, set_random_state
from clearhead.training.ranks import Ranks
from clearhead.training.schedule import learning_rate_at

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
    """One step in numbers, those of all ranks together."""

    step: int
    learning_rate: float
    seconds: float
    """of this step, waiting for its batches included"""
    measured: Numbers

    @property
    def known(self) -> bool:
        """Whether all else is there without waiting for the device."""
        return self.measured.known

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
        """The share of the cells that hold no token."""
        return self.measured.values[3]

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class Trainer(Generic[Model, Batch]):
    """A model in training: moves it to its device and takes steps, alone or with other ranks.

    Only if loss and gradient are finite is a step taken. A GPU decides that by itself and goes on; the
    processor hears of it some steps later, and weights and averages are by then still those of before.
    `together` is the number of batches that all ranks take for a step.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss[Model, Batch],
        config: TrainingConfig,
        width: int,
        ranks: Ranks | None = None,
    ):
        self.ranks = ranks or Ranks()
        self.device = choose_device(config.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.precision = choose_precision(config.precision, self.device, width)
        self.batches_per_step = self.ranks.batches_per_step(config.accumulate)
        self.parallel = parallel(config, model, loss, self.device, self.ranks)
        self.model = model
        self.config = config
        self.width = width
        self.step = 0
        self.optimizer = Optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.ema_decay) if config.ema_decay else None
        self.parts = 1
        self._passes: Passes[Batch] = self.parallel.passes(self.autocast)
        self._broken = torch.zeros((), device=self.device)
        self._unread: deque[Report] = deque()
        self._lag = LAG if self.device.type == "cuda" and self.optimizer.skips else 0
        if self.ranks.rank:
            begin_stream(config.seed, self.step, self.ranks.rank)

    def steps(self, batches: Iterable[Batch]) -> Iterator[Report]:
        """Takes the steps that are left, one per report, for as long as there are batches of this rank."""
        batches = iter(batches)
        share = self.ranks.share(self.batches_per_step)
        while self.step < self.config.steps:
            began = time.perf_counter()
            group = list(islice(batches, share))
            if len(group) < share:
                break
            report = self._take(group, began)
            self._unread.append(report)
            self.synchronize(self._lag)
            yield report
        self.synchronize()

    def synchronize(self, lag: int = 0) -> None:
        """Waits for all steps but the last few, and sees whether they were good."""
        while len(self._unread) > lag:
            self._check(self._unread.popleft())

    def autocast(self) -> torch.autocast:
        """The precision of the run, for evaluating the model as it is trained."""
        return torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32)

    def weights(self) -> dict[str, Tensor]:
        """What would be published now: the moving average where there is one, else the model's own."""
        return self.average.weights() if self.average else weights(self.model)

    def whole_weights(self) -> dict[str, Tensor]:
        """The same, put together in rank 0 where ranks hold shards; all ranks ask for them together."""
        return self.parallel.gathered(self.weights())

    def published(self) -> AbstractContextManager[Model]:
        """The model with these weights, to be looked at by rank 0; all ranks enter together."""
        return self.parallel.published(self.average)

    def state(self) -> dict[str, Any]:
        """All that is needed to go on but the place in the data; the tensors are those in use, not copies.

        All ranks ask for it together, as it holds the random generators of each.
        """
        state = {"step": self.step, "weights": self.weights(), "optimizer": self.optimizer.state_dict()}
        if self.average:
            state["model"] = weights(self.model)
        random = {str(rank): one for rank, one in enumerate(self.ranks.gather(random_state()))}
        parts = self.ranks.gather(self.parts)
        return state | {"random": random, "parts": parts, "together": self.batches_per_step}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same model and optimizer, whatever the number of ranks that saved it.

        Another number gives each rank new random numbers.
        """
        self.ranks.share(state["together"])
        state = self.parallel.spread(state)
        if bool(self.average) != ("model" in state):
            raise TrainingError(
                "training.ema_decay: the run began with another choice; resume with the same settings"
            )
        set_weights(self.model, state.get("model", state["weights"]), "the saved state")
        if self.average:
            self.average.load(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.batches_per_step = state["step"], state["together"]
        self.parts = max(state["parts"])
        if len(state["random"]) == self.ranks.count:
            self.parts = state["parts"][self.ranks.rank]
            set_random_state(state["random"][str(self.ranks.rank)])
        else:
            begin_stream(self.config.seed, self.step, self.ranks.rank)

    def _take(self, group: list[Batch], began: float) -> Report:
        """One step along the gradient of the mean loss over all tokens of the group, and of all ranks."""
        if not self.model.training:
            self.model.train()
        total = self._gradients(group)
        counted = (sum(batch.tokens for batch in group), sum(batch.padding for batch in group))
        total, tokens, padding = self.ranks.sum(
            torch.stack([total, *(total.new_full((), float(count)) for count in counted)])
        )
        gradients = self.parallel.summed([p.grad for p in self.optimizer.parameters if p.grad is not None])
        loss, norm = total / tokens, self.parallel.norm(gradients).to(total) / tokens
        self._broken = torch.maximum(self._broken, (~(loss + norm).isfinite()).float())
        measured = Numbers(torch.stack([loss, norm, tokens, padding / self.batches_per_step]))
        speed = learning_rate_at(self.config.schedule, self.step + 1, self.config.steps, self.width)
        self.step += 1
        if self.optimizer.skips or all(map(math.isfinite, measured.values)):
            self._move(norm, tokens, speed)
        # Before the time is taken: a step is as long as the device needs for one.
        self.synchronize(max(0, self._lag - 1))
        return Report(self.step, speed, time.perf_counter() - began, measured)

    def _move(self, norm: Tensor, tokens: Tensor, speed: float) -> None:
        # The gradient is that of the sum; divided, it is that of the mean, and shortened if need be.
        longer = (
            ((norm + 1e-6) / self.config.clip_norm).clamp(min=1.0)
            if self.config.clip_norm
            else norm.new_ones(())
        )
        self.optimizer.step(speed, self._broken, (longer * tokens).float())
        if self.average:
            self.average.update(self.step, self._broken)

    def _gradients(self, group: list[Batch]) -> Tensor:
        """The summed loss, its gradients being in the parameters; in smaller parts where memory is short."""
        while True:
            parts = [part for batch in group for part in batch.split(self.parts)]
            try:
                self._passes.clear()
                return torch.stack([self._passes(part) for part in parts]).sum()
            except torch.OutOfMemoryError as error:
                shortage = str(error).partition(".")[0]
            # Outside of the exception, which would keep the tensors of the failed pass alive.
            self._passes.forget()
            if not self.parallel.retries:
                raise TrainingError(
                    f"rank {self.ranks.rank}: out of memory ({shortage}); lower batches.tokens, and raise "
                    "training.accumulate as much in another folder, or use more ranks"
                )
            if len(parts) == sum(len(batch.split(1 << 30)) for batch in group):
                raise TrainingError(
                    f"out of memory with a single row ({shortage}); make batches.row_length or the model smaller"
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
            " lengthen its warm-up, or lower training.clip_norm"
        )

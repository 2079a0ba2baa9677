"""Forward and backward over one batch: plainly, or compiled and recorded where shapes come again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from clearhead.layers.block import Block, Stack
from clearhead.layers.embedding import Embedding

# Passes before a recording, on another stream, as torch asks: kernels are compiled and chosen in them.
WARM_UP = 3


class Trainable(Protocol):
    """What training wants of a batch."""

    @property
    def tokens(self) -> int: ...
    @property
    def padding(self) -> float: ...
    @property
    def static_shape(self) -> bool:
        """Whether its shape is one of a few that come again and again."""
        ...

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with every tensor changed."""
        ...

    def split(self, count: int) -> list[Self]:
        """Its rows in so many batches, or in one for each row if there are fewer."""
        ...


Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=Trainable)
Loss = Callable[[Model, Batch], Tensor]
"""The sum of the losses of a batch, over its tokens."""


class Objective(nn.Module, Generic[Model, Batch]):
    """A model and its loss as one module, so that whatever wraps modules can wrap the two."""

    def __init__(self, model: Model, loss: Loss[Model, Batch]):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> Tensor:
        return self.loss(self.model, batch)


class Passes(Generic[Batch]):
    """Plain passes: `pass(batch)` adds to the gradients and gives the summed loss."""

    def __init__(
        self, objective: nn.Module, device: torch.device, autocast: Callable[[], AbstractContextManager]
    ):
        self.objective, self.device, self.autocast = objective, device, autocast
        self.parameters = [p for p in objective.parameters() if p.requires_grad]

    def clear(self) -> None:
        """No gradients from here on."""
        for parameter in self.parameters:
            parameter.grad = None

    def forget(self) -> None:
        """Gives back the gradients and all else that is held."""
        self.clear()

    def __call__(self, batch: Batch) -> Tensor:
        with self.autocast():
            loss = self.objective(batch.map(lambda tensor: tensor.to(self.device, non_blocking=True)))
        loss.backward()
        return loss.detach()


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Any
    loss: Tensor
    gradients: list[Tensor | None]


class CudaGraphPasses(Passes[Batch]):
    """Passes on a GPU; batches of fixed shapes are recorded once and then replayed without the processor.

    The first pass after `clear` makes gradients, later ones add to them: these are recordings of their own,
    as a recording writes to the memory that it has seen. Whether a shape is recorded depends on nothing but
    the batch, so that a resumed run computes alike.
    """

    def __init__(
        self,
        objective: nn.Module,
        device: torch.device,
        autocast: Callable[[], AbstractContextManager],
        regions: "Regions | None" = None,
    ):
        super().__init__(objective, device, autocast)
        self.regions = regions
        self._recordings: dict[tuple, _Recording] = {}
        self._first: tuple | None = None

    def clear(self) -> None:
        super().clear()
        self._first = None

    def forget(self) -> None:
        self._recordings.clear()
        super().forget()
        torch.cuda.empty_cache()

    def __call__(self, batch: Batch) -> Tensor:
        if not batch.static_shape:
            return super().__call__(batch)
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in _tensors(batch))
        found = self._recordings.get((shapes, self._first))
        recording = self._recordings[shapes, self._first] = found or self._record(batch)
        for room, new in zip(_tensors(recording.batch), _tensors(batch), strict=True):
            room.copy_(new, non_blocking=True)
        recording.graph.replay()
        if self._first is None:
            self._first = shapes
            self._set(recording.gradients)
        return recording.loss.clone()

    def _record(self, batch: Batch) -> _Recording:
        """Runs the pass a few times, then records it; neither gradients nor chance are changed by that."""
        before = [parameter.grad for parameter in self.parameters]
        kept = [gradient if gradient is None else gradient.clone() for gradient in before]
        chance = torch.cuda.get_rng_state(self.device)
        room = batch.map(lambda tensor: tensor.to(self.device).clone())
        graph = torch.cuda.CUDAGraph()
        with self.regions.compiled() if self.regions else nullcontext():
            aside = torch.cuda.Stream(self.device)
            aside.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(aside):
                for _ in range(WARM_UP):
                    super().__call__(room)
                    self._set(before)
            torch.cuda.current_stream(self.device).wait_stream(aside)
            with torch.cuda.graph(graph):
                loss = super().__call__(room)
        made = [parameter.grad for parameter in self.parameters]
        for gradient, old in zip(before, kept, strict=True):
            if gradient is not None and old is not None:
                gradient.copy_(old)
        self._set(before)
        torch.cuda.set_rng_state(chance, self.device)
        return _Recording(graph, room, loss, made)

    def _set(self, gradients: list[Tensor | None]) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient


# What is compiled of a model: the method of each module of a kind.
COMPILED = {Block: "forward", Embedding: "add_positions", Stack: "final_norm"}


class Regions:
    """The compiled parts of a model, one like the other; outside of `compiled` they run as they are."""

    def __init__(self, model: nn.Module):
        # The compiler takes long to import, and most processes never ask for it.
        from clearhead.training.compiling import compiled

        # One compilation serves all modules of a kind: dynamo keeps it with the code, weights are inputs.
        self._compiled = [
            (module, name, compiled(getattr(module, name)))
            for module in model.modules()
            for kind, name in COMPILED.items()
            if isinstance(module, kind)
        ]

    @contextmanager
    def compiled(self) -> Iterator[None]:
        for module, name, compiled in self._compiled:
            setattr(module, name, compiled)
        try:
            yield
        finally:
            for module, name, _ in self._compiled:
                delattr(module, name)


def _tensors(batch: Trainable) -> list[Tensor]:
    found: list[Tensor] = []
    batch.map(lambda tensor: found.append(tensor) or tensor)
    return found

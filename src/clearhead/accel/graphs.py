"""CUDA graphs: GPU work recorded once and replayed without the processor launching each kernel."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

# Runs before a recording, on a side stream as torch requires: kernels are compiled and chosen in them.
WARM_UP = 3
# Decoding is recorded often and replayed few times; the first run compiles all of its kernels.
DECODING_WARM_UP = 1

T = TypeVar("T")


def record(
    step: Callable[[], T], undo: Callable[[], None], device: torch.device, warm_up: int = WARM_UP
) -> tuple[torch.cuda.CUDAGraph, T]:
    """A graph of one step and the result that each replay overwrites; `undo` follows each warm-up run."""
    side = _side_stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            step()
            undo()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all recordings, because cuBLAS keeps a workspace per stream."""
    return torch.cuda.Stream(device)


class GraphedStep:
    """A step of decoding: plain on a CPU, recorded at its first call on a GPU.

    Each call must be given the same step, because a GPU replays the first one. It is not kept: a step is a
    method of the object that holds its graph, and an object that holds itself would keep its GPU memory until
    garbage is collected.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._recorded: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(self, step: Callable[[], Tensor], undo: Callable[[], None] = lambda: None) -> Tensor:
        """The result, which is valid until the next call; `undo` follows each run before the recording."""
        if self._device.type == "cpu":
            return step()
        if self._recorded is None:
            self._recorded = record(step, undo, self._device, DECODING_WARM_UP)
        graph, result = self._recorded
        graph.replay()
        return result


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Any
    loss: Tensor
    gradients: list[Tensor | None]


class GraphedPasses:
    """Forward and backward passes on a GPU; batches of static shape are recorded once, then replayed.

    `run(batch)` is a plain pass: it adds to the gradients of the parameters and returns the loss. The first
    pass after `zero_grad` creates gradients and later ones add to them; these are separate recordings,
    because a graph writes to the memory it was recorded with. Whether a shape is recorded depends on the
    batch alone, so a resumed run computes the same. `compiled` is the context in which passes are recorded.
    """

    def __init__(
        self,
        run: Callable[[Any], Tensor],
        parameters: Sequence[Tensor],
        device: torch.device,
        compiled: Callable[[], AbstractContextManager] = nullcontext,
    ):
        self.run, self.parameters, self.device, self.compiled = run, parameters, device, compiled
        self._recordings: dict[tuple, _Recording] = {}
        self._first: tuple | None = None

    def zero_grad(self) -> None:
        """Drops all gradients."""
        self._set([None] * len(self.parameters))
        self._first = None

    def release(self) -> None:
        """Frees the gradients and the memory of all recordings."""
        self._recordings.clear()
        self.zero_grad()
        torch.cuda.empty_cache()

    def __call__(self, batch: Any) -> Tensor:
        """Adds to the gradients and returns the summed loss."""
        if not batch.static_shape:
            return self.run(batch)
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in _tensors(batch))
        found = self._recordings.get((shapes, self._first))
        recording = self._recordings[shapes, self._first] = found or self._record(batch)
        for static, new in zip(_tensors(recording.batch), _tensors(batch), strict=True):
            static.copy_(new, non_blocking=True)
        recording.graph.replay()
        if self._first is None:
            self._first = shapes
            self._set(recording.gradients)
        return recording.loss.clone()

    def _record(self, batch: Any) -> _Recording:
        """Records a pass; gradients and the random generator stay as they were."""
        before = [parameter.grad for parameter in self.parameters]
        kept = [gradient if gradient is None else gradient.clone() for gradient in before]
        random = torch.cuda.get_rng_state(self.device)
        static = batch.map(lambda tensor: tensor.to(self.device).clone())
        with self.compiled():
            graph, loss = record(lambda: self.run(static), lambda: self._set(before), self.device)
        made = [parameter.grad for parameter in self.parameters]
        for gradient, old in zip(before, kept, strict=True):
            if gradient is not None and old is not None:
                gradient.copy_(old)
        self._set(before)
        torch.cuda.set_rng_state(random, self.device)
        return _Recording(graph, static, loss, made)

    def _set(self, gradients: Sequence[Tensor | None]) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient


def _tensors(batch: Any) -> list[Tensor]:
    found: list[Tensor] = []
    batch.map(lambda tensor: found.append(tensor) or tensor)
    return found

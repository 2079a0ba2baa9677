"""Tracing: a module's calls recorded as a graph that torch runs without Python."""

import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.accel import enabled

log = logging.getLogger(__name__)

# Tracing takes about as long as this many calls of the trace save.
CALLS_BEFORE_TRACING = 100


class TracedModule:
    """A function of tensors: at first the module itself, after many calls its trace.

    A trace takes tensors of any shape, but its branches in Python are those of the recorded call: use one
    TracedModule for each path through the module.
    """

    def __init__(self, module: nn.Module):
        self.module, self.calls = module, 0
        self._traced: nn.Module | None = None

    def __call__(self, *tensors: Tensor) -> Any:
        self.calls += 1
        if self.calls == CALLS_BEFORE_TRACING and enabled():
            self._traced = _trace(self.module, tensors)
        return (self._traced or self.module)(*tensors)


def _trace(module: nn.Module, tensors: tuple[Tensor, ...]) -> nn.Module | None:
    """The trace of a module, or None if it cannot be traced."""
    with warnings.catch_warnings():
        # Torch warns of branches in Python, and that tracing is deprecated; torch.compile needs a compiler.
        warnings.simplefilter("ignore")
        try:
            return torch.jit.trace(module, tensors, check_trace=False)  # pyright: ignore
        except (RuntimeError, TypeError, ValueError) as error:
            log.debug("%s stays untraced: %s", type(module).__name__, error)
            return None

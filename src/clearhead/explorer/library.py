"""The models that a server answers for: loaded when first asked for, each used by one request at a time."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from clearhead.errors import ClearheadError, SettingsError
from clearhead.explorer.architecture import Model, kind_of
from clearhead.tasks.load import load_built_in
from clearhead.tasks.zoo import TEXT, built_in_names

MOST_WAITING = 16
LOOK_SECONDS = 0.2
"""How often a request that waits looks whether anybody still wants its answer."""


class BusyError(ClearheadError):
    """Too many requests wait for one model."""


class LeftError(ClearheadError):
    """Nobody waits for the answer of a model any more."""

    def __init__(self, name: str):
        super().__init__(f"{name}: whoever asked has left")


@dataclass
class Held:
    """A model's name, and the model once it is loaded."""

    name: str
    kind: str
    model: Model | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(MOST_WAITING)
    )

    def record(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "loaded": self.model is not None}


class Library:
    """Models by name; the first is meant where none is named."""

    def __init__(self, named: Sequence[tuple[str, Model]], device: torch.device | str = "cpu"):
        self.device = device
        self._held = {name: Held(name, kind_of(model), model) for name, model in named}
        for name, about in built_in_names().items():
            self._held.setdefault(name, Held(name, "gpt" if about == TEXT else "translator"))

    def records(self) -> list[dict[str, Any]]:
        return [one.record() for one in self._held.values()]

    @contextmanager
    def using(
        self, name: str | None, wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[Model, str]]:
        """A model and its name, for this request alone until the context ends, if it is wanted that long."""
        held = self._find(name)
        if not held.waiting.acquire(blocking=False):
            raise BusyError(
                f"{held.name}: {MOST_WAITING} requests wait for this model; try again in a moment"
            )
        try:
            while not held.lock.acquire(timeout=LOOK_SECONDS):
                if not wanted():
                    raise LeftError(held.name)
            try:
                if held.model is None:
                    held.model = load_built_in(held.name, self.device)
                yield held.model, held.name
            finally:
                held.lock.release()
        finally:
            held.waiting.release()

    def _find(self, name: str | None) -> Held:
        if name is None:
            return next(iter(self._held.values()))
        if name not in self._held:
            raise SettingsError(f"model: {name!r:.80} is not one of {', '.join(self._held)}")
        return self._held[name]

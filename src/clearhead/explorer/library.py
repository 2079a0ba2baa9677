"""What a server holds: models, each used by one request at a time, and traces, up to a limit in bytes."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from clearhead.checkpoint import SETTINGS
from clearhead.config import read_toml
from clearhead.errors import ClearheadError, SettingsError
from clearhead.explorer.explorable import Explorable, input_of
from clearhead.explorer.images import ImageStore
from clearhead.explorer.trace_session import TraceSession
from clearhead.models import MODELS
from clearhead.tasks.load import load_built_in
from clearhead.tasks.zoo import built_in_names

MAX_WAITING = 16
POLL_SECONDS = 0.2
"""How often a waiting request checks whether its client is still connected."""


class BusyError(ClearheadError):
    """Too many requests wait for one model."""

    status = 503


class DisconnectedError(ClearheadError):
    """The client disconnected before its request was answered."""

    def __init__(self, name: str):
        super().__init__(f"{name}: the client disconnected")


class UnknownTraceError(ClearheadError):
    """There is no such trace, or not any more."""

    status = 404

    def __init__(self, key: str):
        super().__init__(f"trace {key!r:.40}: is not in memory any more; request it again")


@dataclass
class Slot:
    """A model by name, and its queue of requests."""

    name: str
    kind: str
    model: Explorable | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MAX_WAITING))


class Library:
    """Models by name, loaded on first use, and uploaded images; the first model is the default."""

    def __init__(self, models: Sequence[tuple[str, Explorable]], device: torch.device | str = "cpu"):
        self.device, self.images = device, ImageStore()
        self._slots = {name: Slot(name, model.model.config.kind, model) for name, model in models}
        names = built_in_names()
        several = {folder for folder, variant in names.values() if variant}
        for name, (folder, variant) in names.items():
            # A model with variants is offered by variant only.
            if variant or folder not in several:
                settings = read_toml(folder / SETTINGS)["model"]
                self._slots.setdefault(name, Slot(name, settings.get("kind", "translator")))

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "name": slot.name,
                "kind": slot.kind,
                "input": input_of(type(slot.model.model) if slot.model else MODELS[slot.kind]),
                "loaded": slot.model is not None,
            }
            for slot in self._slots.values()
        ]

    @contextmanager
    def using(
        self, name: str | None, connected: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[Explorable, str]]:
        """Exclusive use of a model, with its name; gives up when the client has disconnected."""
        slot = self._find(name)
        if not slot.waiting.acquire(blocking=False):
            raise BusyError(f"{slot.name}: {MAX_WAITING} requests wait for this model; try again in a moment")
        try:
            while not slot.lock.acquire(timeout=POLL_SECONDS):
                if not connected():
                    raise DisconnectedError(slot.name)
            try:
                model = slot.model = slot.model or load_built_in(slot.name, self.device)
                yield model, slot.name
            finally:
                slot.lock.release()
        finally:
            slot.waiting.release()

    def _find(self, name: str | None) -> Slot:
        if name is None:
            return next(iter(self._slots.values()))
        if name not in self._slots:
            raise SettingsError(f"model: {name!r:.80} is not one of {', '.join(self._slots)}")
        return self._slots[name]


class TraceCache:
    """Traces by id, safe for several threads; beyond the limit, the least recently used are dropped."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._sessions: OrderedDict[str, TraceSession] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def bytes(self) -> int:
        return sum(session.bytes for session in self._sessions.values())

    def add(self, session: TraceSession, key: str | None = None) -> str:
        """Stores a trace and returns its id; the newest stays even if it alone exceeds the limit."""
        key = key or f"t{secrets.token_hex(4)}"
        with self._lock:
            self._sessions[key] = session
            self._evict()
        return key

    def get(self, key: str) -> TraceSession:
        """The trace with an id, which becomes the most recently used."""
        with self._lock:
            if key not in self._sessions:
                raise UnknownTraceError(key)
            self._sessions.move_to_end(key)
            # Traces grow: tensors that were not kept at first may have been computed since.
            self._evict()
            return self._sessions[key]

    def drop(self, key: str) -> None:
        """Forgets a trace and stops its pass if it is still running."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            session.stopped = True

    def _evict(self) -> None:
        while len(self._sessions) > 1 and self.bytes > self.max_bytes:
            self._sessions.popitem(last=False)

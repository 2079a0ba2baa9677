"""Traces in memory: the least recently used go first when all together pass a bound in bytes."""

import secrets
import threading
from collections import OrderedDict

from clearhead.explorer.trace_session import TraceSession


class GoneError(Exception):
    """No such trace, or no longer."""


class Traces:
    """Traces by their ids, never more than a bound in bytes; several threads may ask at once."""

    def __init__(self, bound: int):
        self.bound = bound
        self._held: OrderedDict[str, TraceSession] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self._held.values())

    def new_id(self) -> str:
        return f"t{secrets.token_hex(4)}"

    def add(self, key: str, told: TraceSession) -> None:
        """Takes a trace in; the newest stays even where it alone passes the bound."""
        with self._lock:
            self._held[key] = told
            self._let_go()

    def found(self, key: str) -> TraceSession:
        """The trace of an id, which becomes the last to go."""
        with self._lock:
            if key not in self._held:
                raise GoneError(key)
            self._held.move_to_end(key)
            # Traces grow: what was not kept at first may have been computed since.
            self._let_go()
            return self._held[key]

    def drop(self, key: str) -> None:
        """Forgets a trace; if its pass is still under way, that ends too."""
        with self._lock:
            told = self._held.pop(key, None)
        if told is not None:
            told.stop()

    def _let_go(self) -> None:
        while len(self._held) > 1 and self.bytes > self.bound:
            self._held.popitem(last=False)

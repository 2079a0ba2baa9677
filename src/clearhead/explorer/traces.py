"""Traces in memory; the least recently used are dropped when together they exceed a limit in bytes."""

import secrets
import threading
from collections import OrderedDict

from clearhead.errors import ClearheadError
from clearhead.explorer.trace_session import TraceSession


class UnknownTraceError(ClearheadError):
    """There is no such trace, or not any more."""

    def __init__(self, key: str):
        super().__init__(f"trace {key!r:.40}: is not in memory any more; request it again")


class TraceCache:
    """Traces by id, limited in bytes; safe to use from several threads."""

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

"""Tensors that arrive one by one while a pass runs, so that the first picture need not wait for the last."""

import threading
from collections.abc import Collection, Iterable, Mapping

from torch import Tensor

from clearhead.inspection import Trace
from clearhead.inspection.explanation import not_captured


class PendingTrace:
    """Tensors by name, some still being computed; readers wait for those they ask for."""

    def __init__(self, captured: Mapping[str, Tensor], pending: Iterable[str] = ()):
        self._captured = dict(captured)
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self.expect(pending)

    def expect(self, names: Iterable[str]) -> None:
        """Marks tensors as pending: readers wait for them."""
        with self._changed:
            self._pending = set(names)
            self._running = bool(self._pending)

    @property
    def bytes(self) -> int:
        with self._changed:
            return sum(tensor.nbytes for tensor in self._captured.values())

    def put(self, name: str, tensor: Tensor) -> None:
        with self._changed:
            self._captured[name] = tensor
            self._pending.discard(name)
            self._changed.notify_all()

    def finish(self, error: Exception | None = None) -> None:
        """Marks the pass as finished; readers that still wait get the error."""
        with self._changed:
            self._pending.clear()
            self._running, self._error = False, error
            self._changed.notify_all()

    def finished(self, timeout: float) -> bool:
        """Whether the pass has finished, after at most `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def wait(self) -> None:
        """Waits for the end of the pass and raises its error, if any."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
            if self._error:
                raise self._error

    def expects(self, names: Iterable[str]) -> bool:
        """Whether all these tensors are captured or pending."""
        with self._changed:
            return self._captured.keys() | self._pending >= set(names)

    def get(self, names: Collection[str]) -> list[Tensor]:
        with self._changed:
            self._changed.wait_for(lambda: self._pending.isdisjoint(names))
            for name in names:
                if name not in self._captured:
                    raise self._error or not_captured(name)
            return [self._captured[name] for name in names]

    def trace(self) -> Trace:
        """All captured tensors, with a batch axis."""
        with self._changed:
            return Trace({name: tensor[None] for name, tensor in self._captured.items()})

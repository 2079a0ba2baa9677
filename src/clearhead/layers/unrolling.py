"""Sequences that are computed one position at a time, and how taps learn which position they see."""

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType

from torch import Tensor

Read = Callable[[Tensor], object]
_current: ContextVar["Unrolling | None"] = ContextVar("unrolling", default=None)


class Unrolling:
    """A context in which a loop computes a sequence; set `position`, and `direction`, before each step.

    A tap sees one position at a time. What wants the whole sequence, as a capture does, leaves each part
    here and reads it when the loop is done.
    """

    def __init__(self, positions: int):
        self.positions, self.position, self.direction = positions, 0, 0
        self._parts: dict[object, tuple[Tensor, Read]] = {}

    def __enter__(self) -> "Unrolling":
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)
        if kind is None:
            for whole, read in self._parts.values():
                read(whole)

    def add(self, key: object, part: Tensor, axis: int | None, read: Read) -> None:
        """Keeps this step's part of a tensor along an axis of positions; without one, the tensor itself.

        Axis 1 may hold directions, which are computed one after the other.
        """
        if axis is None:
            self._parts[key] = part, read
            return
        if key not in self._parts:
            shape = list(part.shape)
            shape[axis] = self.positions
            self._parts[key] = part.new_zeros(shape), read
        computed = slice(self.direction, None) if axis == 2 else slice(None)
        whole = self._parts[key][0].narrow(axis, self.position, 1)
        whole[:, computed] = part.detach()[:, computed]


def unrolling() -> Unrolling | None:
    """The innermost loop that this thread is in."""
    return _current.get()

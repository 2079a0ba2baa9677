"""What a block has read so far while decoding: its keys and values, in room that is there before them."""

from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from clearhead.layers.attention import KeyValues


@runtime_checkable
class Cache(Protocol):
    """What a block asks of its memory."""

    def extend(self, new: KeyValues, /) -> KeyValues:
        """All keys and values so far, the new ones in their positions."""
        ...


class KVCache:
    """One block's cache: the keys and values of the tokens so far, in room that doubles when it is full."""

    def __init__(self, room: int = 16):
        self.length = 0
        self.room = room
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, new: KeyValues) -> KeyValues:
        """All keys and values so far, the new ones last."""
        end = self.length + new.keys.shape[2]
        if end > self.room:
            self.room = 2 * end
        self._keys = self._written(self._keys, new.keys)
        self._values = self._written(self._values, new.values)
        self.length = end
        return KeyValues(self._keys[:, :, :end], self._values[:, :, :end])

    def held(self) -> KeyValues:
        """What was read so far, which is not nothing."""
        assert self._keys is not None
        assert self._values is not None
        return KeyValues(self._keys[:, :, : self.length], self._values[:, :, : self.length])

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)
            self._values = self._values.index_select(0, rows)

    def _written(self, held: Tensor | None, new: Tensor) -> Tensor:
        """What is held with the new positions behind it; moved where there is room, if there is too little."""
        rows, heads, positions, size = new.shape
        if held is None or held.shape[2] < self.room:
            larger = new.new_empty(rows, heads, self.room, size)
            if held is not None:
                larger[:, :, : self.length] = held[:, :, : self.length]
            held = larger
        held[:, :, self.length : self.length + positions] = new
        return held


class StaticKVCache:
    """The same in room that never moves, so that steps can be recorded: a tensor tells where a token goes."""

    def __init__(self, keys: Tensor, values: Tensor, position: Int[Tensor, "1"]):
        self.keys, self.values, self.position = keys, values, position

    def extend(self, new: KeyValues) -> KeyValues:
        """All of the room; what lies behind the new token is not to be seen yet."""
        self.keys.index_copy_(2, self.position, new.keys)
        self.values.index_copy_(2, self.position, new.values)
        return KeyValues(self.keys, self.values)

    def held(self, length: int) -> KeyValues:
        """The first positions, so many."""
        return KeyValues(self.keys[:, :, :length], self.values[:, :, :length])

    def adopt(self, read: KeyValues) -> None:
        """Begins with what another memory has read."""
        length = read.keys.shape[2]
        self.keys[:, :, :length] = read.keys
        self.values[:, :, :length] = read.values

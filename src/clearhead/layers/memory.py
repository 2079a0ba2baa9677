"""What a block has read so far while decoding: its keys and values, in room that is there before them."""

from jaxtyping import Int
from torch import Tensor

from clearhead.layers.attention import KeyValues


class Memory:
    """One block's cache: the keys and values of the words so far, in room that doubles when it is full."""

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

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order; a row may come several times."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)
            self._values = self._values.index_select(0, rows)

    def _written(self, held: Tensor | None, new: Tensor) -> Tensor:
        """What is held with the new places behind it; moved where there is room, if there is too little."""
        rows, heads, places, size = new.shape
        if held is None or held.shape[2] < self.room:
            larger = new.new_empty(rows, heads, self.room, size)
            if held is not None:
                larger[:, :, : self.length] = held[:, :, : self.length]
            held = larger
        held[:, :, self.length : self.length + places] = new
        return held

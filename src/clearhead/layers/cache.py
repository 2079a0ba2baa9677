"""Key-value caches: the keys and values of the tokens that a block has processed while decoding."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.accel import kernels
from clearhead.accel.torch_private import copy_all_
from clearhead.layers.attention import KeyValues, Lookup

# If fewer rows move, they are copied in place; if more do, all rows are copied to new memory.
MOVED_SHARE = 0.75


@runtime_checkable
class Cache(Protocol):
    """What a block needs of its cache."""

    def extend(self, new: KeyValues, /) -> KeyValues:
        """Stores new keys and values and returns all that are cached."""
        ...


class RowMoves:
    """Which row each row continues after a step of a search, worked out once for all caches."""

    def __init__(self, rows: Int[Tensor, " rows"]):
        self.rows = rows
        numbers = rows.tolist()
        self.moved = [row for row, source in enumerate(numbers) if row != source]
        self.sources = [numbers[row] for row in self.moved]
        self.are_apart = not set(self.moved) & set(self.sources)
        """Whether no row is read after another was copied into it."""


class KVCache:
    """The cache of one block; `extend` doubles its capacity, in positions, when it is full."""

    def __init__(self, capacity: int = 16):
        self.length, self.capacity = 0, capacity
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, new: KeyValues) -> KeyValues:
        """Appends new keys and values and returns all that are cached."""
        end = self.length + new.keys.shape[2]
        if end > self.capacity:
            self.capacity = 2 * end
        self._keys = self._appended(self._keys, new.keys)
        self._values = self._appended(self._values, new.values)
        self.length = end
        return self.contents()

    def allocate(self, rows: int, positions: int, like: Tensor) -> None:
        """Makes room in an empty cache for keys and values with the heads, size and type of `like`."""
        self.capacity = positions
        shape = (rows, like.shape[1], positions, like.shape[3])
        self._keys, self._values = like.new_zeros(shape), like.new_zeros(shape)

    def reserve(self, positions: int) -> KeyValues:
        """The first positions of an allocated cache, with room for the next tokens."""
        assert self._keys is not None
        assert self._values is not None
        if positions > self._keys.shape[2]:
            self.capacity = positions
            self._keys, self._values = self._grown(self._keys), self._grown(self._values)
        return KeyValues(self._keys[:, :, :positions], self._values[:, :, :positions])

    def contents(self) -> KeyValues:
        """All cached keys and values of a cache that is not empty."""
        assert self._keys is not None
        assert self._values is not None
        return KeyValues(self._keys[:, :, : self.length], self._values[:, :, : self.length])

    def select(self, moves: "RowMoves") -> None:
        """Keeps these rows, in this order; rows may repeat."""
        rows = moves.rows
        if self._keys is None or self._values is None or (len(rows) == len(self._keys) and not moves.moved):
            return
        if len(rows) != len(self._keys) or len(moves.moved) >= MOVED_SHARE * len(rows):
            self._keys, self._values = self._keys.index_select(0, rows), self._values.index_select(0, rows)
            return
        for cached in (self._keys, self._values):
            used = cached[:, :, : self.length]
            if moves.are_apart and not used.is_cuda:
                parts = used.unbind(0)
                copy_all_([parts[row] for row in moves.moved], [parts[row] for row in moves.sources])
            else:
                moved = torch.tensor(moves.moved, device=rows.device, dtype=torch.long)
                used.index_copy_(0, moved, used.index_select(0, rows[moved]))

    def _appended(self, cached: Tensor | None, new: Tensor) -> Tensor:
        positions = new.shape[2]
        if cached is None:
            cached = new.new_zeros(new.shape[0], new.shape[1], self.capacity, new.shape[3])
        elif cached.shape[2] < self.capacity:
            cached = self._grown(cached)
        cached[:, :, self.length : self.length + positions] = new
        return cached

    def _grown(self, cached: Tensor) -> Tensor:
        """A larger tensor with the same contents; the rest is zero, because a mask cannot hide a NaN."""
        rows, heads, _, size = cached.shape
        larger = cached.new_empty(rows, heads, self.capacity, size)
        larger[:, :, : self.length] = cached[:, :, : self.length]
        larger[:, :, self.length :].zero_()
        return larger


class SlotKVCache:
    """A cache of fixed tensors for CUDA graphs: each row has its own length and finds its keys by a lookup.

    The newest key of a row is the last of its lookup, and it is stored in that row.
    """

    def __init__(self, keys: Tensor, values: Tensor, lookup: Lookup):
        self.keys, self.values, self.lookup = keys, values, lookup

    def extend(self, new: KeyValues) -> KeyValues:
        """Stores one key and value per row, and returns all with their lookup."""
        if kernels.supports_decoding(self.keys):
            from clearhead.accel.kernels.cached_attention import store

            store(new.keys, new.values, self.keys, self.values, self.lookup.lengths)
        else:
            rows = torch.arange(len(self.keys), device=self.keys.device)
            for kept, one in ((self.keys, new.keys), (self.values, new.values)):
                kept[rows, :, self.lookup.lengths - 1] = one[:, :, 0]
        return KeyValues(self.keys, self.values, lookup=self.lookup)

    def contents(self, length: int) -> KeyValues:
        """The first `length` positions, as stored."""
        return KeyValues(self.keys[:, :, :length], self.values[:, :, :length])

    def load(self, cached: KeyValues) -> None:
        """Copies the contents of another cache to the first positions."""
        length = cached.keys.shape[2]
        self.keys[:, :, :length] = cached.keys
        self.values[:, :, :length] = cached.values


class StaticKVCache:
    """A cache of fixed tensors for traces; a tensor holds the position of the next token."""

    def __init__(self, keys: Tensor, values: Tensor, position: Int[Tensor, ""]):
        self.keys, self.values, self.position = keys, values, position

    def extend(self, new: KeyValues) -> KeyValues:
        """Stores a token and returns the whole capacity; the caller's mask hides the positions after it."""
        self.keys.narrow(2, self.position, 1).copy_(new.keys)
        self.values.narrow(2, self.position, 1).copy_(new.values)
        return KeyValues(self.keys, self.values)

"""Which keys each query may attend to: rules, not tensors, so that a kernel can use its own form of them.

True means "may attend". The queries are the last of the keys: with 10 keys and 3 queries, the queries are at
positions 7, 8 and 9, so one rule serves a full pass and a cached step alike.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

DenseMask = Bool[Tensor, "_ 1 _ _"] | None


class Mask:
    """The rule that hides nothing, and the base of all masks: subclass it and override `dense`."""

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        """The mask as (batch or 1, 1, queries or 1, keys); None if nothing is hidden."""
        return None

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other)


@dataclass(frozen=True)
class Causal(Mask):
    """A query attends to its own position and those before it."""

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        if queries == 1:
            return None
        return (distances(queries, keys, device) >= 0)[None, None]


@dataclass(frozen=True)
class Window(Mask):
    """A query attends to its own position and up to `reach` positions on either side."""

    reach: int

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        return (distances(queries, keys, device).abs() <= self.reach)[None, None]


@dataclass(frozen=True, eq=False)
class KeyMask(Mask):
    """Each row lists the keys that all its queries may attend to."""

    keep: Bool[Tensor, "batch keys"]

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        return self.keep[:, None, None, :keys]


@dataclass(frozen=True, eq=False)
class LengthMask(Mask):
    """Hides the padding after the first `lengths` keys of each row."""

    lengths: Int[Tensor, " batch"]

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        return (torch.arange(keys, device=device) < self.lengths[:, None])[:, None, None]


@dataclass(frozen=True, eq=False)
class LeftPadding(Mask):
    """Hides the first `padding` keys of each row from its tokens.

    Padding queries attend everywhere, because a fully masked row would be NaN.
    """

    padding: Int[Tensor, " batch"]

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        positions = torch.arange(keys, device=device)
        tokens = positions >= self.padding[:, None]
        return (tokens[:, None] | ~tokens[:, keys - queries :, None])[:, None]


@dataclass(frozen=True, eq=False)
class SameSegment(Mask):
    """In rows of several sentences, a query attends to the keys of its own segment number.

    Segment 0 is padding. Padding queries attend everywhere, because a fully masked row would be NaN.
    """

    queries: Int[Tensor, "batch queries"]
    keys: Int[Tensor, "batch keys"]

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        segments = self.queries[:, :, None]
        return ((segments == self.keys[:, None]) | (segments == 0))[:, None]


@dataclass(frozen=True)
class And(Mask):
    """Allows what both masks allow; written `first & second`."""

    first: Mask
    second: Mask

    def dense(self, queries: int, keys: int, device: torch.device) -> DenseMask:
        first, second = self.first.dense(queries, keys, device), self.second.dense(queries, keys, device)
        if first is None or second is None:
            return second if first is None else first
        return first & second


def distances(queries: int, keys: int, device: torch.device) -> Int[Tensor, "queries keys"]:
    """How many positions each key lies before each query."""
    positions = torch.arange(keys, device=device)
    return positions[keys - queries :, None] - positions

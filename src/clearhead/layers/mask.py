"""Which keys each query may look at: rules, not tensors, so that a kernel can choose its own form of them.

True means "may look", everywhere. The queries are the last of the keys: with 10 keys and 3 queries, the
queries stand at positions 7, 8 and 9. That makes one rule serve a full pass and a cached step alike.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


class Mask:
    """The rule that hides nothing, and the base of the rules that do."""

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        """The rule as (batch or 1, 1, queries or 1, keys); None when nothing is hidden."""
        return None

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other)


@dataclass(frozen=True)
class Causal(Mask):
    """A query sees its own position and the positions before it."""

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        if queries == 1:
            return None
        distance = _distance(queries, keys, device)
        return (distance >= 0)[None, None]


@dataclass(frozen=True)
class Window(Mask):
    """A query sees its own position and so many positions on either side."""

    reach: int

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        distance = _distance(queries, keys, device)
        return (distance.abs() <= self.reach)[None, None]


@dataclass(frozen=True, eq=False)
class Keep(Mask):
    """Each sentence of the batch says which of its keys are seen, by every query alike."""

    keep: Bool[Tensor, "batch keys"]

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        return self.keep[:, None, None, :keys]


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    """Each sentence of the batch has its length; what follows is padding, which nobody sees."""

    lengths: Int[Tensor, " batch"]

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        return (torch.arange(keys, device=device) < self.lengths[:, None])[:, None, None]


@dataclass(frozen=True, eq=False)
class LeftPadding(Mask):
    """Each row of the batch begins with so many positions of padding, which no token sees.

    Padding sees all itself, as what sees nothing is no number.
    """

    padding: Int[Tensor, " batch"]

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        positions = torch.arange(keys, device=device)
        tokens = positions >= self.padding[:, None]
        return (tokens[:, None] | ~tokens[:, keys - queries :, None])[:, None]


@dataclass(frozen=True, eq=False)
class SameSegment(Mask):
    """Rows hold several sentences, and a token sees the tokens of its own: those with the same number.

    Number 0 means no token. Nobody sees such a position; it sees all itself, as what sees nothing is no number.
    """

    queries: Int[Tensor, "batch queries"]
    keys: Int[Tensor, "batch keys"]

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        asking = self.queries[:, :, None]
        return ((asking == self.keys[:, None]) | (asking == 0))[:, None]


@dataclass(frozen=True)
class Both(Mask):
    """What two rules both allow."""

    first: Mask
    second: Mask

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "_ 1 _ _"] | None:
        first, second = self.first.dense(queries, keys, device), self.second.dense(queries, keys, device)
        if first is None or second is None:
            return second if first is None else first
        return first & second


def _distance(queries: int, keys: int, device: torch.device) -> Int[Tensor, "queries keys"]:
    """How many positions each key lies before each query."""
    positions = torch.arange(keys, device=device)
    return positions[keys - queries :, None] - positions

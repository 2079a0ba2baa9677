"""Attention scores: how well a query matches a key.

Four of the six are dot products of prepared queries and keys, so a fused kernel can compute them.
"""

from collections.abc import Callable
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import TextError
from clearhead.layers.choices import OneOf, choose

Heads = Float[Tensor, "batch _ _ size"]
Queries = Float[Tensor, "batch heads queries size"]
Keys = Float[Tensor, "batch heads keys size"]
Scores = Float[Tensor, "batch heads queries keys"]


class ProductScore(nn.Module):
    """`scale` times the dot product of prepared queries and keys; the base of all fused scores."""

    scale: float = 1.0

    def prepare(self, queries: Heads, keys: Heads) -> tuple[Heads, Heads]:
        return queries, keys

    def forward(self, queries: Queries, keys: Keys) -> Scores:
        queries, keys = self.prepare(queries, keys)
        return queries @ keys.mT * self.scale


class Dot(ProductScore):
    """q·k (Luong et al. 2015)."""


class Scaled(ProductScore):
    """q·k / √size, so that the softmax does not saturate in large heads (Vaswani et al. 2017)."""

    def __init__(self, size: int):
        super().__init__()
        self.scale = size**-0.5


class General(ProductScore):
    """qW·k with a learned matrix for each head (Luong et al. 2015)."""

    def __init__(self, heads: int, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(size).repeat(heads, 1, 1) * size**-0.5)

    def prepare(self, queries: Heads, keys: Heads) -> tuple[Heads, Heads]:
        return queries @ self.weight, keys


class Cosine(ProductScore):
    """The cosine of q and k, times a learned sharpness (Graves et al. 2014)."""

    def __init__(self, heads: int, size: int):
        super().__init__()
        # A cosine is at most 1: unsharpened, the softmax over many keys could never become peaked.
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), float(size) ** 0.5))

    def prepare(self, queries: Heads, keys: Heads) -> tuple[Heads, Heads]:
        return F.normalize(queries, dim=-1) * self.sharpness, F.normalize(keys, dim=-1)


class Additive(nn.Module):
    """v·tanh(Wq + Uk), a one-layer network over both (Bahdanau et al. 2015)."""

    def __init__(self, heads: int, size: int):
        super().__init__()
        self.query = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))
        self.key = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))
        self.value = nn.Parameter(torch.randn(heads, size) * size**-0.5)

    def prepare_keys(self, keys: Keys) -> Keys:
        """Uk, which a caller that attends to the same keys many times computes once."""
        return keys @ self.key

    def compare(self, queries: Queries, prepared: Keys) -> Scores:
        """The scores of queries and prepared keys."""
        summed = (queries @ self.query)[:, :, :, None] + prepared[:, :, None]
        return torch.einsum("bhqks,hs->bhqk", summed.tanh(), self.value)

    def forward(self, queries: Queries, keys: Keys) -> Scores:
        return self.compare(queries, self.prepare_keys(keys))


class Location(nn.Module):
    """Wq: the query alone chooses positions, whatever their keys are (Luong et al. 2015)."""

    def __init__(self, heads: int, size: int, max_positions: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, size, max_positions) * size**-0.5)

    def forward(self, queries: Queries, keys: Keys) -> Scores:
        positions, max_positions = keys.shape[2], self.weight.shape[2]
        if positions > max_positions:
            raise TextError(
                f"the text has {positions} tokens, but the location score takes at most {max_positions}; "
                "shorten it"
            )
        return queries @ self.weight[:, :, :positions]


SCORES: dict[str, Callable[[int, int, int], nn.Module]] = {
    "dot": lambda heads, size, max_positions: Dot(),
    "scaled": lambda heads, size, max_positions: Scaled(size),
    "general": lambda heads, size, max_positions: General(heads, size),
    "additive": lambda heads, size, max_positions: Additive(heads, size),
    "cosine": lambda heads, size, max_positions: Cosine(heads, size),
    "location": Location,
}
"""What makes each score from (heads, head size, max_positions); add your own to use it in settings.

A score is a module with `forward(queries, keys) -> scores`; a `ProductScore` also runs fused.
"""
ScoreKind = Annotated[str, OneOf(SCORES)]


def make_score(kind: str, heads: int, size: int, max_positions: int) -> nn.Module:
    return choose(SCORES, kind)(heads, size, max_positions)

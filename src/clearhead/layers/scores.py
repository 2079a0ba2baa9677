"""How well a query and a key match: the six classic scores, each an object.

Four of them are a dot product once queries and keys are prepared, so that a fused kernel can do the rest.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import TextError

Heads = Float[Tensor, "batch _ _ size"]
Scores = Float[Tensor, "batch heads queries keys"]


class ProductScore(nn.Module):
    """A score that is `scale` times the dot product of prepared queries and keys."""

    scale: float = 1.0

    def prepare(self, queries: Heads, keys: Heads) -> tuple[Heads, Heads]:
        return queries, keys

    def forward(
        self, queries: Float[Tensor, "batch heads queries size"], keys: Float[Tensor, "batch heads keys size"]
    ) -> Scores:
        queries, keys = self.prepare(queries, keys)
        return queries @ keys.mT * self.scale


class Dot(ProductScore):
    """q·k (Luong et al. 2015)."""


class Scaled(ProductScore):
    """q·k / √size, so that the softmax does not saturate as heads grow (Vaswani et al. 2017)."""

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
        # A cosine is at most 1; without sharpening, softmax over many keys could never be decided.
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), float(size) ** 0.5))

    def prepare(self, queries: Heads, keys: Heads) -> tuple[Heads, Heads]:
        return F.normalize(queries, dim=-1) * self.sharpness, F.normalize(keys, dim=-1)


class Additive(nn.Module):
    """v·tanh(Wq + Uk): a small network looks at both (Bahdanau et al. 2015)."""

    def __init__(self, heads: int, size: int):
        super().__init__()
        self.query = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))
        self.key = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))
        self.value = nn.Parameter(torch.randn(heads, size) * size**-0.5)

    def forward(
        self, queries: Float[Tensor, "batch heads queries size"], keys: Float[Tensor, "batch heads keys size"]
    ) -> Scores:
        batches_per_step = (queries @ self.query)[:, :, :, None] + (keys @ self.key)[:, :, None]
        return torch.einsum("bhqks,hs->bhqk", batches_per_step.tanh(), self.value)


class Location(nn.Module):
    """Wq: the query alone says which positions to look at, whatever stands there (Luong et al. 2015)."""

    def __init__(self, heads: int, size: int, max_length: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, size, max_length) * size**-0.5)

    def forward(
        self, queries: Float[Tensor, "batch heads queries size"], keys: Float[Tensor, "batch heads keys size"]
    ) -> Scores:
        positions, max_length = keys.shape[2], self.weight.shape[2]
        if positions > max_length:
            raise TextError(
                f"the location score knows {max_length} positions, the text has {positions}: shorten it"
            )
        return queries @ self.weight[:, :, :positions]


def make_score(kind: str, heads: int, size: int, max_length: int) -> nn.Module:
    """The score of a name, for heads of a size and texts up to a longest length."""
    match kind:
        case "dot":
            return Dot()
        case "scaled":
            return Scaled(size)
        case "general":
            return General(heads, size)
        case "cosine":
            return Cosine(heads, size)
        case "additive":
            return Additive(heads, size)
        case "location":
            return Location(heads, size, max_length)
    raise ValueError(f"unknown score {kind!r}")

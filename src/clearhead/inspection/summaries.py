"""What many attention weights come to: how sharp a head looks, how far, at what, and where layers lead."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Weights = Float[Tensor, "heads queries keys"]
RoleName = Literal["previous", "self", "next", "first", "last", "diagonal", "alignment", "mixed"]

# A head has a role when so much of its weight is explained by it, and that is twice what even looking gives.
CLEAR, TIMES_EVEN = 0.4, 2.0


@dataclass(frozen=True)
class Role:
    """What a head mostly looks at, as measured: `strength` is the share of its weight that lies there."""

    name: RoleName
    strength: float

    def __str__(self) -> str:
        return "mixed" if self.name == "mixed" else f"{LABELS[self.name]} {self.strength:.0%}"


LABELS: dict[RoleName, str] = {
    "previous": "previous token",
    "self": "itself",
    "next": "next token",
    "first": "first token",
    "last": "last token",
    "diagonal": "diagonal",
    "alignment": "alignment",
    "mixed": "mixed",
}
"""How a role is written in pictures and on the page."""


def entropy(weights: Weights) -> Float[Tensor, "heads queries"]:
    """Bits: 0 where a query looks at one key alone, log2 of n where it looks at n keys alike."""
    return -torch.xlogy(weights, weights).sum(-1) / torch.tensor(2.0).log()


def mean_distance(weights: Weights) -> Float[Tensor, "heads queries"]:
    """How many positions lie between a query and the keys it looks at, on average; of self-attention."""
    return (weights * _offsets(weights).abs()).sum(-1)


def role_strengths(weights: Weights, across: bool = False) -> dict[RoleName, Float[Tensor, " heads"]]:
    """The share of each head's weight on the previous token, itself, and so on; `across`: of another text.

    A query that can see one key only tells nothing of its head, and is left out.
    """
    return {name: share for name, (share, _) in _shares(weights, across).items()}


def head_roles(weights: Weights, across: bool = False) -> list[Role]:
    """The clearest role of each head, or `mixed`; `alignment.cross_roles` knows one more."""
    shares, roles = _shares(weights, across), []
    for head in range(len(weights)):
        clear = [
            Role(name, float(share[head]))
            for name, (share, even) in shares.items()
            if share[head] >= max(CLEAR, TIMES_EVEN * float(even[head]))
        ]
        # The diagonal holds itself and its neighbours: it is what remains when none of them is clear.
        exact = [role for role in clear if role.name != "diagonal"]
        roles.append(max(exact or clear, key=lambda role: role.strength, default=Role("mixed", 0.0)))
    return roles


def rollout(
    layers: Float[Tensor, "layers heads positions positions"],
) -> Float[Tensor, "layers positions positions"]:
    """How much of each first token is in each position after every layer (Abnar and Zuidema 2020).

    Heads count alike, and half of what a layer gives is what came in through the residual.
    """
    paths = []
    sofar = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    for weights in layers.mean(1):
        sofar = (weights + torch.eye(len(weights), dtype=weights.dtype, device=weights.device)) / 2 @ sofar
        paths.append(sofar)
    return torch.stack(paths)


@dataclass(frozen=True)
class Brought:
    """What one sub-layer did to the residual stream, at every position."""

    name: str
    """Its path: `decoder.blocks.0.cross_attention`."""
    norm: Float[Tensor, " positions"]
    """The length of the stream after it."""
    added: Float[Tensor, " positions"]
    """The length of what it added."""
    share: Float[Tensor, " positions"]
    """How large a part that is of what met in the residual."""

    @property
    def kind(self) -> str:
        """attention, cross_attention or feedforward."""
        return self.name.rsplit(".", 1)[1]

    @property
    def layer(self) -> int:
        return int(self.name.split(".")[2])


def residual_share(
    before: Float[Tensor, "positions width"], added: Float[Tensor, "positions width"]
) -> Float[Tensor, " positions"]:
    """How large a part of what meets in a residual the sub-layer has brought, by the lengths of both."""
    brought = added.norm(dim=-1)
    return brought / (brought + before.norm(dim=-1)).clamp(min=1e-12)


def _shares(weights: Weights, across: bool) -> dict[RoleName, tuple[Tensor, Tensor]]:
    """By role the share of each head's weight, and what it would be if it looked alike at all keys it sees.

    The means over queries that have a choice and a key there.
    """
    seen = weights.count_nonzero(-1)[..., None]
    found: dict[RoleName, tuple[Tensor, Tensor]] = {}
    for name, keys in _patterns(weights, across).items():
        there = (keys >= 0) & (keys < weights.shape[-1])
        # A role is about a few keys of each query: to look up these is far less than to look at all.
        looked = keys.clamp(0, weights.shape[-1] - 1).expand(len(weights), -1, -1)
        picked = weights.gather(-1, looked) * there
        asked = (seen > 1) & there.any(-1, keepdim=True)
        count = asked.sum((1, 2)).clamp(min=1)
        share, even = (((one * asked).sum((1, 2)) / count) for one in (picked, (picked > 0) / seen))
        found[name] = share, even
    return found


def _patterns(weights: Weights, across: bool) -> dict[RoleName, Int[Tensor, "queries few"]]:
    """The keys at which each role has its weight; a number that no key has stands for none."""
    queries, keys = weights.shape[1:]
    # The queries are the last of the keys.
    own = torch.arange(keys - queries, keys, device=weights.device)[:, None]
    ends: dict[RoleName, Tensor] = {"first": torch.zeros_like(own), "last": torch.full_like(own, keys - 1)}
    if across:
        # As the other text may be longer, its positions are stretched; a position to either side still counts.
        line = torch.linspace(0, keys - 1, queries, device=weights.device)[:, None]
        near = line.floor() + torch.arange(-1, 3, device=weights.device)
        return {**ends, "diagonal": near.masked_fill((near - line).abs() > 1, -1).long()}
    around = torch.cat([own - 1, own, own + 1], 1)
    return {"previous": own - 1, "self": own, "next": own + 1, **ends, "diagonal": around}


def _offsets(weights: Weights) -> Float[Tensor, "queries keys"]:
    """How many positions each key lies before each query; the queries are the last of the keys."""
    queries, keys = weights.shape[1:]
    positions = torch.arange(keys, device=weights.device)
    return (positions[keys - queries :, None] - positions).to(weights.dtype)

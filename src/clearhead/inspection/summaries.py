"""What many attention weights come to: how sharp a head looks, how far, at what, and where layers lead."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
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
    """How many places lie between a query and the keys it looks at, on average; of self-attention."""
    return (weights * _offsets(weights).abs()).sum(-1)


def role_strengths(weights: Weights, across: bool = False) -> dict[RoleName, Float[Tensor, " heads"]]:
    """The share of each head's weight on the previous token, itself, and so on; `across`: of another text.

    A query that can see one key only tells nothing of its head, and is left out.
    """
    return {name: _share(weights, where) for name, where in _patterns(weights, across).items()}


def head_roles(weights: Weights, across: bool = False) -> list[Role]:
    """The clearest role of each head, or `mixed`; `alignment.cross_roles` knows one more."""
    strengths, usual = role_strengths(weights, across), role_strengths(_even(weights), across)
    roles = []
    for head in range(len(weights)):
        clear = [
            Role(name, float(share[head]))
            for name, share in strengths.items()
            if share[head] >= max(CLEAR, TIMES_EVEN * float(usual[name][head]))
        ]
        # The diagonal holds itself and its neighbours: it is what remains when none of them is clear.
        exact = [role for role in clear if role.name != "diagonal"]
        roles.append(max(exact or clear, key=lambda role: role.strength, default=Role("mixed", 0.0)))
    return roles


def rollout(
    layers: Float[Tensor, "layers heads places places"],
) -> Float[Tensor, "layers places places"]:
    """How much of each first token is in each place after every layer (Abnar and Zuidema 2020).

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
    """What one sub-layer did to the residual stream, at every place."""

    name: str
    """Its path: `decoder.blocks.0.cross_attention`."""
    norm: Float[Tensor, " places"]
    """The length of the stream after it."""
    added: Float[Tensor, " places"]
    """The length of what it added."""
    share: Float[Tensor, " places"]
    """How large a part that is of what met in the residual."""

    @property
    def kind(self) -> str:
        """attention, cross_attention or feedforward."""
        return self.name.rsplit(".", 1)[1]

    @property
    def layer(self) -> int:
        return int(self.name.split(".")[2])


def residual_share(
    before: Float[Tensor, "places width"], added: Float[Tensor, "places width"]
) -> Float[Tensor, " places"]:
    """How large a part of what meets in a residual the sub-layer has brought, by the lengths of both."""
    brought = added.norm(dim=-1)
    return brought / (brought + before.norm(dim=-1)).clamp(min=1e-12)


def _patterns(weights: Weights, across: bool) -> dict[RoleName, Float[Tensor, "queries keys"]]:
    """Where each role has its weight: 1 there, 0 elsewhere."""
    queries, keys = weights.shape[1:]
    offsets = _offsets(weights)
    first, last = torch.zeros(queries, keys), torch.zeros(queries, keys)
    first[:, 0], last[:, -1] = 1, 1
    if across:
        # As the other text may be longer, its places are stretched; a place to either side still counts.
        line = torch.linspace(0, keys - 1, queries)[:, None]
        near = ((torch.arange(keys) - line).abs() <= 1).float()
        return {"first": first, "last": last, "diagonal": near}
    return {
        "previous": (offsets == 1).float(),
        "self": (offsets == 0).float(),
        "next": (offsets == -1).float(),
        "first": first,
        "last": last,
        "diagonal": (offsets.abs() <= 1).float(),
    }


def _share(weights: Weights, where: Float[Tensor, "queries keys"]) -> Float[Tensor, " heads"]:
    """The mean weight on the pattern, over queries that have a choice and a key there."""
    where = where.to(weights)
    asked = ((weights > 0).sum(-1) > 1) & (where.sum(-1) > 0)
    inside = (weights * where).sum(-1)
    return (inside * asked).sum(-1) / asked.sum(-1).clamp(min=1)


def _even(weights: Weights) -> Weights:
    """The weights of heads that look alike at all keys they may look at."""
    seen = (weights > 0).to(weights.dtype)
    return seen / seen.sum(-1, keepdim=True).clamp(min=1)


def _offsets(weights: Weights) -> Float[Tensor, "queries keys"]:
    """How many places each key lies before each query; the queries are the last of the keys."""
    queries, keys = weights.shape[1:]
    places = torch.arange(keys, device=weights.device)
    return (places[keys - queries :, None] - places).to(weights.dtype)

"""Summaries of attention weights (entropy, roles, rollout) and of the residual stream; the logit lens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Weights = Float[Tensor, "heads queries keys"]
RoleName = Literal["previous", "self", "next", "first", "last", "diagonal", "alignment", "mixed"]

MIN_STRENGTH = 0.4
"""The least share of a head's weight that makes a role."""
MIN_RATIO = 2.0
"""The least ratio of that share to what uniform weights would give."""


@dataclass(frozen=True)
class Role:
    """What a head mostly attends to; `strength` is the share of its weight there."""

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
"""The names of roles in pictures and on the page."""


def entropy(weights: Weights) -> Float[Tensor, "heads queries"]:
    """Bits: 0 for a query that attends to a single key, log2(n) for one that attends to n keys equally."""
    return -torch.xlogy(weights, weights).sum(-1) / torch.tensor(2.0).log()


def mean_distance(weights: Weights, cross: bool = False) -> Float[Tensor, "heads queries"]:
    """The mean distance, in positions, of a query from the keys it attends to; `cross`: of the diagonal."""
    queries, keys = weights.shape[1:]
    positions = torch.arange(keys, device=weights.device)
    # The queries of self-attention are the last of the keys.
    own = torch.linspace(0, keys - 1, queries, device=weights.device) if cross else positions[-queries:]
    return (weights * (own[:, None] - positions).abs()).sum(-1)


def role_strengths(weights: Weights, cross: bool = False) -> dict[RoleName, Float[Tensor, " heads"]]:
    """The share of each head's weight by role; `cross` for cross-attention.

    Queries that can attend to one key only are left out, as they reveal nothing about the head.
    """
    return {name: share for name, (share, _) in _shares(weights, cross).items()}


def head_roles(weights: Weights, cross: bool = False) -> list[Role]:
    """The strongest role of each head, or `mixed`; `alignment.cross_roles` also finds aligners."""
    shares, roles = _shares(weights, cross), []
    for head in range(len(weights)):
        strong = [
            Role(name, float(share[head]))
            for name, (share, uniform) in shares.items()
            if share[head] >= max(MIN_STRENGTH, MIN_RATIO * float(uniform[head]))
        ]
        # The diagonal includes the token itself and its neighbours, so any of these is more precise.
        exact = [role for role in strong if role.name != "diagonal"]
        roles.append(max(exact or strong, key=lambda role: role.strength, default=Role("mixed", 0.0)))
    return roles


def rollout(
    layers: Float[Tensor, "layers heads positions positions"],
) -> Float[Tensor, "layers positions positions"]:
    """The share of each input token in each position after every layer (Abnar and Zuidema 2020).

    Heads are averaged, and half of a layer's output is its input, through the residual connection.
    """
    paths = []
    path = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    for weights in layers.mean(1):
        path = (weights + torch.eye(len(weights), dtype=weights.dtype, device=weights.device)) / 2 @ path
        paths.append(path)
    return torch.stack(paths)


@dataclass(frozen=True)
class ResidualContribution:
    """The effect of one sublayer on the residual stream, at every position."""

    name: str
    """The path of the sublayer: `decoder.blocks.0.cross_attention`."""
    layer: int
    norm: Float[Tensor, " positions"]
    """The norm of the stream after it."""
    added: Float[Tensor, " positions"]
    """The norm of what it added."""
    share: Float[Tensor, " positions"]
    """The norm of what it added as a share of that norm and the stream's before."""

    @property
    def kind(self) -> str:
        """The sublayer: attention, cross_attention or feedforward."""
        return self.name.rsplit(".", 1)[-1]


def residual_share(
    before: Float[Tensor, "positions width"], added: Float[Tensor, "positions width"]
) -> Float[Tensor, " positions"]:
    """The norm of an addition as a share of the norms of both terms."""
    norm = added.norm(dim=-1)
    return norm / (norm + before.norm(dim=-1)).clamp(min=1e-12)


@dataclass(frozen=True)
class Lens:
    """The most probable tokens after every layer at every position (logit lens, nostalgebraist 2020)."""

    rows: tuple[str, ...]
    ids: Int[Tensor, "rows positions top"]
    probabilities: Float[Tensor, "rows positions top"]
    next_probabilities: Float[Tensor, "rows positions"]
    """The probability of the actual next token; NaN where it is unknown."""


@torch.no_grad()
def logit_lens(
    streams: Mapping[str, Float[Tensor, "positions width"]],
    readout: Callable[[Tensor], Tensor],
    following: Sequence[int | None],
    top: int = 3,
) -> Lens:
    """The readout of each stream, final norm included; `following` are the actual next tokens."""
    ids, probabilities, next_probabilities = [], [], []
    known = torch.tensor([-1 if one is None else one for one in following])
    for stream in streams.values():
        # One row at a time, because with a large vocabulary all rows together take too much memory.
        softmax = readout(stream).float().softmax(-1).cpu()
        best = softmax.topk(min(top, softmax.shape[-1]))
        ids.append(best.indices)
        probabilities.append(best.values)
        actual = softmax.gather(1, known.clamp(min=0)[:, None])[:, 0]
        next_probabilities.append(actual.masked_fill(known < 0, float("nan")))
    return Lens(tuple(streams), torch.stack(ids), torch.stack(probabilities), torch.stack(next_probabilities))


def _shares(weights: Weights, cross: bool) -> dict[RoleName, tuple[Tensor, Tensor]]:
    """By role, the share of each head's weight, and the share that uniform weights would have.

    Both are means over the queries that have a choice of keys, one of them the role's.
    """
    visible = weights.count_nonzero(-1)[..., None]
    found: dict[RoleName, tuple[Tensor, Tensor]] = {}
    for name, keys in _role_keys(weights, cross).items():
        exists = (keys >= 0) & (keys < weights.shape[-1])
        # A role concerns a few keys of each query, so gathering them is far cheaper than a full mask.
        index = keys.clamp(0, weights.shape[-1] - 1).expand(len(weights), -1, -1)
        gathered = weights.gather(-1, index) * exists
        counted = (visible > 1) & exists.any(-1, keepdim=True)
        count = counted.sum((1, 2)).clamp(min=1)
        both = (gathered, (gathered > 0) / visible)
        share, uniform = ((one * counted).sum((1, 2)) / count for one in both)
        found[name] = share, uniform
    return found


def _role_keys(weights: Weights, cross: bool) -> dict[RoleName, Int[Tensor, "queries few"]]:
    """The keys that each role attends to; a number out of range stands for none."""
    queries, keys = weights.shape[1:]
    # The queries are the last of the keys.
    own = torch.arange(keys - queries, keys, device=weights.device)[:, None]
    ends: dict[RoleName, Tensor] = {"first": torch.zeros_like(own), "last": torch.full_like(own, keys - 1)}
    if cross:
        # The two sides may differ in length: the diagonal is scaled, and one position to either side counts.
        line = torch.linspace(0, keys - 1, queries, device=weights.device)[:, None]
        near = line.floor() + torch.arange(-1, 3, device=weights.device)
        return {**ends, "diagonal": near.masked_fill((near - line).abs() > 1, -1).long()}
    around = torch.cat([own - 1, own, own + 1], 1)
    return {"previous": own - 1, "self": own, "next": own + 1, **ends, "diagonal": around}

"""What pictures are made from: an attention with its tokens, and the text and model it belongs to."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.inspection.summaries import LABELS, Role


@dataclass(frozen=True)
class Subject:
    """Of which model and text a picture is."""

    model: str
    text: str
    output: str = ""

    def __str__(self) -> str:
        said = f" → “{_cut(self.output)}”" if self.output else ""
        return f"Model {self.model}, “{_cut(self.text)}”{said}:"


@dataclass(frozen=True)
class Seen:
    """The weights of one attention, with the tokens that ask and those that are asked."""

    name: str
    """Its path in the model: `decoder.blocks.0.cross_attention`."""
    weights: Float[Tensor, "heads queries keys"]
    queries: Sequence[str]
    keys: Sequence[str]
    hidden: Bool[Tensor, "queries keys"] | None = None
    """What the mask hides."""
    roles: Sequence[Role] = ()

    @property
    def heads(self) -> int:
        return len(self.weights)

    @property
    def layer(self) -> int:
        """Counted from 0."""
        return int(self.name.split(".")[2])

    @functools.cached_property
    def later(self) -> Bool[Tensor, "queries keys"] | None:
        """What is hidden because it comes later."""
        if self.hidden is None:
            return None
        return self.hidden & torch.ones_like(self.hidden).triu(
            1 + self.hidden.shape[1] - self.hidden.shape[0]
        )

    @functools.cached_property
    def outside(self) -> Bool[Tensor, "queries keys"] | None:
        """What is hidden for another reason: padding, or too far away."""
        return None if self.hidden is None or self.later is None else self.hidden & ~self.later

    def label(self, head: int) -> str:
        """A head's number, and its role if it has one."""
        named = self.roles and self.roles[head].name != "mixed"
        return f"head {head} · {self.roles[head]}" if named else f"head {head}"

    def strongest(self, head: int, most: int = 8) -> str:
        """What the first queries of a head look at most, in words."""
        best = self.weights[head].max(-1)
        told = [
            f"{query} at {self.keys[key]} ({weight:.2f})"
            for query, key, weight in zip(
                self.queries, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]
        rest = f", and {len(told) - most} more" if len(told) > most else ""
        return ", ".join(told[:most]) + rest

    def told_roles(self) -> str:
        """How many heads have each role."""
        names = [LABELS[role.name] for role in self.roles]
        return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


def _cut(text: str, max_length: int = 120) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_length else text[: max_length - 1] + "…"

"""The data of pictures: an attention with its tokens, and the model and text it belongs to."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.inspection.summaries import LABELS, Role


@dataclass(frozen=True)
class Subject:
    """The model and text of a picture."""

    model: str
    text: str
    output: str = ""

    def __str__(self) -> str:
        output = f" → “{_truncated(self.output)}”" if self.output else ""
        return f"Model {self.model}, “{_truncated(self.text)}”{output}:"


@dataclass(frozen=True)
class AttentionView:
    """The weights of one attention with the tokens of its queries and keys."""

    name: str
    """The path of the attention: `decoder.blocks.0.cross_attention`."""
    weights: Float[Tensor, "heads queries keys"]
    queries: Sequence[str]
    keys: Sequence[str]
    masked: Bool[Tensor, "queries keys"] | None = None
    """The pairs that the mask hides."""
    roles: Sequence[Role] = ()
    layer: int = 0

    @property
    def heads(self) -> int:
        return len(self.weights)

    @functools.cached_property
    def future(self) -> Bool[Tensor, "queries keys"] | None:
        """The pairs that are masked because the key comes after the query."""
        if self.masked is None:
            return None
        return self.masked & torch.ones_like(self.masked).triu(
            1 + self.masked.shape[1] - self.masked.shape[0]
        )

    @functools.cached_property
    def outside(self) -> Bool[Tensor, "queries keys"] | None:
        """The pairs that are masked for another reason: padding, or outside the window."""
        return None if self.masked is None or self.future is None else self.masked & ~self.future

    def label(self, head: int) -> str:
        """A head's number, and its role if it has one."""
        named = self.roles and self.roles[head].name != "mixed"
        return f"head {head} · {self.roles[head]}" if named else f"head {head}"

    def strongest(self, head: int, limit: int = 8) -> str:
        """The strongest key of each of a head's first queries, as text."""
        best = self.weights[head].max(-1)
        pairs = zip(self.queries, best.indices.tolist(), best.values.tolist(), strict=True)
        texts = [f"{query} to {self.keys[key]} ({weight:.2f})" for query, key, weight in pairs]
        rest = f", and {len(texts) - limit} more" if len(texts) > limit else ""
        return ", ".join(texts[:limit]) + rest

    def role_counts(self) -> str:
        """The number of heads with each role, as text."""
        names = [LABELS[role.name] for role in self.roles]
        return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


def _truncated(text: str, max_length: int = 120) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_length else text[: max_length - 1] + "…"

"""The one attention of the house: fused when nobody looks, explicit when somebody has tapped it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.layers.mask import Causal, Mask
from clearhead.layers.norm import RMSNorm
from clearhead.layers.positions import Positions, Relative
from clearhead.layers.scores import ProductScore, make_score
from clearhead.layers.segments import segment_kernel

Tap = Callable[[str, Tensor], Tensor]
"""Is shown each intermediate by name, and gives back what the attention goes on with."""

Queries = Float[Tensor, "batch heads queries size"]
Keys = Float[Tensor, "batch _ keys size"]
Product = Float[Tensor, "batch _ parts heads size"]


class AttentionConfig(Settings):
    heads: PositiveInt = 8
    kv_heads: PositiveInt | None = None
    """Heads of keys and values, each asked by several of queries (Ainslie et al. 2023). Left out: `heads`."""
    size: PositiveInt | None = None
    """Of a head. Left out: width / heads."""
    score: Literal["dot", "scaled", "general", "additive", "cosine", "location"] = "scaled"
    qk_norm: Literal["none", "rms"] = "none"
    """Of queries and keys before they meet, so that no score can run away (Henry et al. 2020)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Of the weights; the paper has none."""


@dataclass(frozen=True)
class KeyValues:
    """A memory as one attention reads it."""

    keys: Keys
    values: Keys
    product: Product | None = None
    """What they are the last parts of, as they are; and the queries the first, if it has three."""
    asked: Queries | None = None
    """Those queries."""

    def beside(self, queries: Queries) -> list[Product]:
        """Queries, keys and values in as few tensors as they lie in."""
        if self.product is None:
            return [_part(queries), _part(self.keys), _part(self.values)]
        if queries is self.asked:
            return [self.product]
        return [_part(queries), self.product if self.asked is None else self.product[:, :, 1:]]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValues":
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class Projections(nn.Linear):
    """Several matrices in one, a product for all: whoever treats matrices as wholes treats each by itself.

    `sizes` are the numbers of rows that each has, from the first on.
    """

    def __init__(self, width: int, sizes: tuple[int, ...], bias: bool = True):
        super().__init__(width, sum(sizes), bias)
        self.sizes = sizes


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017) with any score; it knows no cache and has no mode.

    `project_q` makes queries, `project_kv` makes keys and values of a memory, `project_qkv` does the two in one product for
    self-attention; `forward` lets the queries look at what was read.
    """

    def __init__(
        self,
        width: int,
        config: AttentionConfig,
        max_length: int,
        relative: Relative | None = None,
        bias: bool = True,
    ):
        super().__init__()
        self.size = config.size or width // config.heads
        self.shared = config.heads // (config.kv_heads or config.heads)
        """How many heads of queries ask the same keys."""
        self.dropout = config.dropout
        asked = config.heads * self.size
        self.project = Projections(width, (asked, asked // self.shared, asked // self.shared), bias)
        self.output = nn.Linear(asked, width, bias)
        self.query_norm = _norm(config.qk_norm, self.size)
        self.key_norm = _norm(config.qk_norm, self.size)
        self.score = make_score(config.score, config.heads, self.size, max_length)
        self.relative = relative or Relative()
        self.tap: Tap | None = None
        for part in self.project.weight.split(self.project.sizes):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.output.weight)
        for linear in (self.project, self.output) if bias else ():
            nn.init.zeros_(linear.bias)

    def project_q(
        self, x: Float[Tensor, "batch queries width"], positions: Positions | None = None
    ) -> Queries:
        """The queries of states that stand at these positions; at 0, 1, 2 … if none are given."""
        (queries,), _ = self._parts(x, 0, 1)
        return self.relative.turn(self.query_norm(queries), positions)

    def project_kv(
        self, memory: Float[Tensor, "batch keys width"], positions: Positions | None = None
    ) -> KeyValues:
        """The keys and values of a memory that stands at these positions."""
        (keys, values), product = self._parts(memory, 1, 3)
        turned = self.relative.turn(self.key_norm(keys), positions)
        return KeyValues(turned, values, product if turned is keys else None)

    def project_qkv(
        self, x: Float[Tensor, "batch queries width"], positions: Positions | None = None
    ) -> tuple[Queries, KeyValues]:
        """What `project_q` and `project_kv` give for the same states."""
        (queries, keys, values), product = self._parts(x, 0, 3)
        turn = self.relative.turn
        asked, turned = turn(self.query_norm(queries), positions), turn(self.key_norm(keys), positions)
        if asked is not queries or turned is not keys:
            product = None
        return asked, KeyValues(turned, values, product, asked)

    def forward(
        self, queries: Queries, memory: KeyValues, mask: Mask
    ) -> Float[Tensor, "batch queries width"]:
        if self.tap is None and isinstance(self.score, ProductScore):
            head_output = self._fused(self.score, queries, memory, mask)
        else:
            head_output = self._explicit(self.tap or _show, queries, memory, mask)
        return self.output(head_output.transpose(1, 2).flatten(2))

    def _parts(self, x: Tensor, first: int, last: int) -> tuple[tuple[Tensor, ...], Product | None]:
        """Parts first to last of (queries, keys, values), each (batch, heads, positions, size).

        And the product that they are parts of, if each has as many heads as the others.
        """
        before, sizes = sum(self.project.sizes[:first]), self.project.sizes[first:last]
        rows = slice(before, before + sum(sizes))
        bias = None if self.project.bias is None else self.project.bias[rows]
        product = F.linear(x, self.project.weight[rows], bias)
        if self.shared == 1:
            product = product.unflatten(-1, (last - first, -1, self.size))
            return tuple(part.transpose(1, 2) for part in product.unbind(2)), product
        parts = product.split(sizes, -1)
        return tuple(part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts), None

    def _fused(self, score: ProductScore, queries: Queries, memory: KeyValues, mask: Mask) -> Queries:
        positions, length, kind = queries.shape[2], memory.keys.shape[2], _kernel_type(queries)
        prepared, keys = score.prepare(queries, memory.keys)
        bias = self.relative.bias(positions, length)
        dropout = self.dropout if self.training else 0.0
        kernel = None if bias is not None or dropout else segment_kernel(prepared, keys, mask)
        if kernel is not None:
            if prepared is not queries or keys is not memory.keys or self.shared > 1:
                # A score may have prepared them in more digits than the values have.
                prepared, keys = prepared.to(kind), self._for_each_head(keys.to(kind))
                memory = KeyValues(keys, self._for_each_head(memory.values.to(kind)))
            return kernel(memory.beside(prepared), score.scale)
        # SDPA's causal form counts from the first key, so it fits only where queries and keys are the same.
        square = isinstance(mask, Causal) and bias is None and positions == length
        allowed = None if square else mask.dense(positions, length, queries.device)
        if bias is not None:
            allowed = bias[None] if allowed is None else bias.masked_fill(~allowed, float("-inf"))
            allowed = allowed.to(kind)
        with torch.autocast(queries.device.type, enabled=False):
            head_output = F.scaled_dot_product_attention(
                prepared.to(kind),
                keys.to(kind),
                memory.values.to(kind),
                attn_mask=allowed,
                dropout_p=dropout,
                is_causal=square,
                scale=score.scale,
                enable_gqa=self.shared > 1,
            )
        return head_output.to(queries.dtype)

    def _explicit(self, tap: Tap, queries: Queries, memory: KeyValues, mask: Mask) -> Queries:
        """The same in the steps of the textbook, each shown to the tap."""
        queries, keys = tap("queries", queries), tap("keys", self._for_each_head(memory.keys))
        positions, length = queries.shape[2], keys.shape[2]
        scores = self.score(queries, keys)
        bias = self.relative.bias(positions, length)
        scores = tap("scores", scores if bias is None else scores + bias)
        allowed = mask.dense(positions, length, queries.device)
        masked = tap("masked", scores if allowed is None else scores.masked_fill(~allowed, float("-inf")))
        weights = tap("weights", masked.softmax(-1))
        weights = F.dropout(weights, self.dropout, self.training)
        return tap("head_output", weights @ tap("values", self._for_each_head(memory.values)))

    def _for_each_head(self, x: Keys) -> Keys:
        """Keys or values once more for each head of queries that asks them."""
        return x if self.shared == 1 else x.repeat_interleave(self.shared, 1)


def _norm(kind: Literal["none", "rms"], size: int) -> nn.Module:
    return nn.Identity() if kind == "none" else RMSNorm(size, eps=1e-6)


def _part(x: Tensor) -> Product:
    return x.transpose(1, 2).unsqueeze(2)


def _show(name: str, tensor: Tensor) -> Tensor:
    return tensor


def _kernel_type(queries: Tensor) -> torch.dtype:
    """The type for the fused kernel: that of the queries, but fp32 where bf16 would train more slowly."""
    # Measured on a processor with bf16 products: backwards, the bf16 kernel takes four times as long.
    slow = queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and torch.is_grad_enabled()
    return torch.float32 if slow else queries.dtype

"""Multi-head attention: fused by default, explicit while a tap watches it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from clearhead.accel import kernels
from clearhead.config import Settings
from clearhead.layers.mask import Causal, KeyMask, Mask
from clearhead.layers.norm import RMSNorm
from clearhead.layers.positions import Positions, Relative
from clearhead.layers.scores import Additive, ProductScore, ScoreKind, make_score
from clearhead.layers.segments import segment_kernel

# Up to this many queries per row, two products are faster on a CPU than the kernel that fuses them.
FEW_QUERIES = 8
Tap = Callable[[str, Tensor], Tensor]
"""Called with the name and value of each intermediate; returns the value to continue with."""

States = Float[Tensor, "batch _ width"]
Queries = Float[Tensor, "batch heads queries size"]
Keys = Float[Tensor, "batch _ keys size"]
Projected = Float[Tensor, "batch _ parts heads size"]


class AttentionConfig(Settings):
    heads: PositiveInt = 8
    kv_heads: PositiveInt | None = None
    """Heads of keys and values, each shared by several query heads (Ainslie et al. 2023). Default: heads."""
    head_size: PositiveInt | None = None
    """Width of a head. Default: width / heads."""
    score: ScoreKind = "scaled"
    qk_norm: Literal["none", "rms"] = "none"
    """Normalises queries and keys before the score, so that scores stay bounded (Henry et al. 2020)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of the attention weights."""

    def check_width(self, width: int) -> None:
        """Raises ValueError if heads do not divide a model's width, or each other."""
        if self.head_size is None and width % self.heads:
            raise ValueError(f"width {width} is not divisible by attention.heads {self.heads}")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"attention.heads {self.heads} is not divisible by attention.kv_heads {self.kv_heads}"
            )


@dataclass(frozen=True)
class Lookup:
    """Which stored keys each row of queries attends to, so that beams can share them (cache indirection)."""

    rows: Int[Tensor, "rows keys"]
    """The stored row of each key: key p of row r is keys[rows[r, p], :, p]."""
    firsts: Int[Tensor, " rows"]
    """The position of the first key of each row; those before it are padding."""
    lengths: Int[Tensor, " rows"]
    """The position after the last key of each row."""

    @property
    def mask(self) -> Mask:
        keys = torch.arange(self.rows.shape[1], device=self.rows.device)
        return KeyMask((keys >= self.firsts[:, None]) & (keys < self.lengths[:, None]))


@dataclass(frozen=True)
class KeyValues:
    """Keys and values for one attention.

    Kernels read a projection in place: `projected` is the tensor whose last parts are the keys and values,
    and `queries` are its first part if it has three.
    """

    keys: Keys
    values: Keys
    projected: Projected | None = None
    queries: Queries | None = None
    prepared: Keys | None = None
    """What the score makes of the keys alone, if it was made ahead."""
    lookup: Lookup | None = None
    """Where each row finds its keys and values; by default, in the same row."""

    def looked_up(self, lookup: Lookup) -> "KeyValues":
        """A copy in which every row has its own keys and values."""
        positions = torch.arange(lookup.rows.shape[1], device=lookup.rows.device)
        keys, values = (kept[lookup.rows, :, positions].transpose(1, 2) for kept in (self.keys, self.values))
        return KeyValues(keys, values)

    def with_queries(self, queries: Queries) -> list[Projected]:
        """Queries, keys and values as kernels take them, in as few tensors as possible."""
        if self.projected is None:
            return [_as_part(queries), _as_part(self.keys), _as_part(self.values)]
        if queries is self.queries:
            return [self.projected]
        return [_as_part(queries), self.projected if self.queries is None else self.projected[:, :, 1:]]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValues":
        prepared = None if self.prepared is None else self.prepared.index_select(0, rows)
        keys, values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        return KeyValues(keys, values, prepared=prepared)


class Projections(nn.Linear):
    """Several matrices stacked into one; `sizes` are their numbers of rows, for per-matrix optimizers."""

    def __init__(self, width: int, sizes: tuple[int, ...], bias: bool = True):
        super().__init__(width, sum(sizes), bias)
        self.sizes = sizes

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: States, first: int = 0, last: int | None = None
    ) -> Float[Tensor, "batch _ projected"]:
        """The products with matrices `first` to `last`, side by side; with all of them by default."""
        start, stop = sum(self.sizes[:first]), sum(self.sizes[:last])
        bias = None if self.bias is None else self.bias[start:stop]
        return F.linear(x, self.weight[start:stop], bias)


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017) with any score; stateless, caches belong to the caller.

    `project_q` returns queries, `project_kv` keys and values, and `project_qkv` all three in one product;
    `forward` attends. Pass your own `score` or `relative` positions; by default the score is `config.score`.
    """

    def __init__(
        self,
        width: int,
        config: AttentionConfig,
        max_positions: int,
        relative: Relative | None = None,
        bias: bool = True,
        score: nn.Module | None = None,
    ):
        super().__init__()
        heads, kv_heads = config.heads, config.kv_heads or config.heads
        self.head_size = size = config.head_size or width // heads
        self.heads_per_kv_head = heads // kv_heads
        self.dropout = config.dropout
        self.project = Projections(width, (heads * size, kv_heads * size, kv_heads * size), bias)
        self.output = nn.Linear(heads * size, width, bias)
        self.query_norm = RMSNorm(size, eps=1e-6) if config.qk_norm == "rms" else nn.Identity()
        self.key_norm = RMSNorm(size, eps=1e-6) if config.qk_norm == "rms" else nn.Identity()
        self.score = make_score(config.score, heads, size, max_positions) if score is None else score
        self.relative = Relative() if relative is None else relative
        self.tap: Tap | None = None
        for matrix in self.project.weight.split(self.project.sizes):
            nn.init.xavier_uniform_(matrix)
        nn.init.xavier_uniform_(self.output.weight)
        for linear in (self.project, self.output) if bias else ():
            nn.init.zeros_(linear.bias)

    def project_q(self, x: States, positions: Positions | None = None) -> Queries:
        """Queries of states at these positions; at 0, 1, 2 … by default."""
        (queries,), _ = self._project(x, 0, 1)
        return self.relative.rotate(self.query_norm(queries), positions)

    def project_kv(self, x: States, positions: Positions | None = None) -> KeyValues:
        """Keys and values of states at these positions; at 0, 1, 2 … by default."""
        (raw, values), projected = self._project(x, 1, 3)
        keys = self.relative.rotate(self.key_norm(raw), positions)
        return KeyValues(keys, values, projected if keys is raw else None)

    def project_qkv(self, x: States, positions: Positions | None = None) -> tuple[Queries, KeyValues]:
        """Queries, keys and values of the same states, in one product."""
        (raw_queries, raw_keys, values), projected = self._project(x, 0, 3)
        queries = self.relative.rotate(self.query_norm(raw_queries), positions)
        keys = self.relative.rotate(self.key_norm(raw_keys), positions)
        unchanged = queries is raw_queries and keys is raw_keys
        return queries, KeyValues(keys, values, projected if unchanged else None, queries)

    def prepare(self, kv: KeyValues) -> KeyValues:
        """Keys and values with all that can be computed ahead, for a source that many steps attend to."""
        kv = KeyValues(kv.keys.contiguous(), kv.values.contiguous())
        if not isinstance(self.score, Additive):
            return kv
        return replace(kv, prepared=self.score.prepare_keys(self._repeat_kv(kv.keys)))

    def forward(self, queries: Queries, kv: KeyValues, mask: Mask) -> Float[Tensor, "batch queries width"]:
        """What each query gathers from the values of the keys that the mask allows.

        If the keys have a lookup, it says which are allowed, and there is one query per row.
        """
        if kv.lookup is not None:
            head_output = self._from_lookup(queries, kv, kv.lookup)
            if head_output is not None:
                return self.output(head_output.transpose(1, 2).flatten(2))
            kv, mask = kv.looked_up(kv.lookup), kv.lookup.mask
        if self.tap is None and isinstance(self.score, ProductScore) and not self._has_few(queries):
            head_output = self._fused(self.score, queries, kv, mask)
        else:
            head_output = self._explicit(self.tap or (lambda name, value: value), queries, kv, mask)
        return self.output(head_output.transpose(1, 2).flatten(2))

    def _from_lookup(self, queries: Queries, kv: KeyValues, lookup: Lookup) -> Queries | None:
        """What each query gathers, by a kernel that reads keys where they are; None if it cannot."""
        if (
            self.tap is not None
            or not isinstance(self.score, ProductScore)
            or not kernels.supports_decoding(queries)
        ):
            return None
        prepared, keys = self.score.prepare(queries, kv.keys)
        if keys is not kv.keys:
            return None
        from clearhead.accel.kernels.cached_attention import cached_attention

        found = (lookup.rows, lookup.firsts, lookup.lengths)
        return cached_attention(prepared, keys, kv.values, *found, self.score.scale)

    def _has_few(self, queries: Queries) -> bool:
        """Whether the explicit products are faster: on a CPU, for few queries per row."""
        few = queries.shape[2] <= FEW_QUERIES and queries.device.type == "cpu"
        return few and self.heads_per_kv_head == 1 and not torch.is_grad_enabled()

    def _explicit(self, tap: Tap, queries: Queries, kv: KeyValues, mask: Mask) -> Queries:
        """softmax(score(q, k) + mask) v, step by step; the tap sees every step and may change it."""
        queries, keys = tap("queries", queries), tap("keys", self._repeat_kv(kv.keys))
        scores = self._scores(queries, keys, kv.prepared)
        bias = self.relative.bias(queries.shape[2], keys.shape[2])
        scores = tap("scores", scores if bias is None else scores + bias)
        allowed = mask.dense(queries.shape[2], keys.shape[2], queries.device)
        masked = tap("masked", scores if allowed is None else scores.masked_fill(~allowed, float("-inf")))
        weights = tap("weights", masked.softmax(-1))
        weights = F.dropout(weights, self.dropout, self.training)
        return tap("head_output", weights @ tap("values", self._repeat_kv(kv.values)))

    def _scores(self, queries: Queries, keys: Keys, prepared: Keys | None) -> Tensor:
        # A tap may have changed the keys.
        if isinstance(self.score, Additive) and prepared is not None and self.tap is None:
            return self.score.compare(queries, prepared)
        return self.score(queries, keys)

    def _fused(self, score: ProductScore, queries: Queries, kv: KeyValues, mask: Mask) -> Queries:
        """The same by a kernel that never stores the scores."""
        count, length = queries.shape[2], kv.keys.shape[2]
        # On CPUs with bf16 products, the backward pass of the bf16 kernel takes four times as long.
        slow = queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and torch.is_grad_enabled()
        dtype = torch.float32 if slow else queries.dtype
        prepared, keys = score.prepare(queries, kv.keys)
        bias = self.relative.bias(count, length)
        dropout = self.dropout if self.training else 0.0
        kernel = None if bias is not None or dropout else segment_kernel(prepared, keys, mask)
        if kernel is not None:
            if prepared is not queries or keys is not kv.keys or self.heads_per_kv_head > 1:
                # A score may prepare them in higher precision than that of the values.
                prepared, keys = prepared.to(dtype), self._repeat_kv(keys.to(dtype))
                kv = KeyValues(keys, self._repeat_kv(kv.values.to(dtype)))
            return kernel(kv.with_queries(prepared), score.scale)
        # SDPA aligns its causal mask with the first key, so it fits only if queries and keys are the same.
        causal = isinstance(mask, Causal) and bias is None and count == length
        allowed = None if causal else mask.dense(count, length, queries.device)
        if bias is not None:
            allowed = bias[None] if allowed is None else bias.masked_fill(~allowed, float("-inf"))
            allowed = allowed.to(dtype)
        with _without_autocast(queries.device.type):
            head_output = F.scaled_dot_product_attention(
                prepared.to(dtype),
                keys.to(dtype),
                kv.values.to(dtype),
                attn_mask=allowed,
                dropout_p=dropout,
                is_causal=causal,
                scale=score.scale,
                enable_gqa=self.heads_per_kv_head > 1,
            )
        return head_output.to(queries.dtype)

    def _project(self, x: Tensor, first: int, last: int) -> tuple[tuple[Tensor, ...], Projected | None]:
        """Parts first to last of (queries, keys, values), each (batch, heads, positions, size).

        Also the product that they are views of, if all have the same number of heads.
        """
        projected = self.project(x, first, last)
        if self.heads_per_kv_head == 1:
            projected = projected.unflatten(-1, (last - first, -1, self.head_size))
            return tuple(part.transpose(1, 2) for part in projected.unbind(2)), projected
        parts = projected.split(self.project.sizes[first:last], -1)
        return tuple(part.unflatten(-1, (-1, self.head_size)).transpose(1, 2) for part in parts), None

    def _repeat_kv(self, x: Keys) -> Keys:
        """Keys or values, repeated for each query head that shares them."""
        return x if self.heads_per_kv_head == 1 else x.repeat_interleave(self.heads_per_kv_head, 1)


def _without_autocast(device: str) -> AbstractContextManager:
    """Turns autocast off where it is on; entering its context takes longer than a small attention."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _as_part(x: Tensor) -> Projected:
    return x.transpose(1, 2).unsqueeze(2)

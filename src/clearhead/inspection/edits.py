"""Edits of a model's tensors during a pass; the repr of an edit is the Python that makes it.

Positions count from the first token, in a full pass as in the cached steps of a search.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clearhead.inspection.sites import ATTENTION, BY_KEY, Site, position_axis
from clearhead.layers.attention import Attention
from clearhead.layers.block import Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.patches import PatchEmbedding

BY_QUERY = ("scores", "masked", "weights")
"""Steps of an attention whose last axes are queries and keys."""
MAX_WEIGHT = 1e30
"""A row of such weights still sums to a finite number in single precision."""


@dataclass(frozen=True)
class EditContext:
    """The pass in which an edit is applied."""

    site: Site
    offset: int = 0
    """The position of the first token in it; a cached step starts where the last one ended."""
    masked: Tensor | None = None
    """At a site of weights: the keys that the mask hides from each query."""


class Edit:
    """A change to the tensors at a site."""

    @property
    def positions_used(self) -> Collection[int]:
        """The positions that it names; empty if it applies to all."""
        return ()

    def check(self, site: Site) -> None:
        """Raises an error if the edit does not fit the site."""
        raise NotImplementedError

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Mute(Edit):
    """Sets heads to zero."""

    heads: Sequence[int]

    def check(self, site: Site) -> None:
        _check_heads(site, self.heads)

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        return tensor.index_fill(1, _index(self.heads, tensor), 0)


@dataclass(frozen=True)
class KeepOnly(Mute):
    """Sets all heads but these to zero."""

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        others = [head for head in range(tensor.shape[1]) if head not in self.heads]
        return Mute(others).apply(tensor, context)


@dataclass(frozen=True)
class SetRow(Edit):
    """Sets the attention weights of one query, in one head or in all; a sequence is divided by its sum.

    With a mapping, only the named keys are set, and the others share the rest in proportion to their weights.
    """

    query: int
    weights: Sequence[float] | Tensor | Mapping[int, float]
    head: int | None = None

    @property
    def positions_used(self) -> Collection[int]:
        return (self.query,)

    @property
    def by_key(self) -> dict[int, float]:
        """The weight of each key that is set."""
        weights = self.weights.tolist() if isinstance(self.weights, Tensor) else self.weights
        return dict(weights if isinstance(weights, Mapping) else enumerate(weights))

    def check(self, site: Site) -> None:
        if site.tensor != "weights":
            raise site.error(f"not attention weights; edit {site.path}.weights of an attention")
        if not isinstance(self.weights, Sequence | Tensor | Mapping):
            raise site.error(f"{self.weights!r} is not a row; pass a weight for each key, or {{key: weight}}")
        _check_heads(site, [] if self.head is None else [self.head])
        _check_positions(site, [self.query, *self.by_key])
        for weight in self.by_key.values():
            if not (isinstance(weight, int | float) and 0 <= weight <= MAX_WEIGHT):
                raise site.error(f"{weight!r} is not a weight; pass numbers from 0 to {MAX_WEIGHT:g}")
        total = sum(self.by_key.values())
        if isinstance(self.weights, Mapping) and total > 1:
            raise site.error(f"the weights sum to {total:g}; their sum must not exceed 1")
        if not isinstance(self.weights, Mapping) and not total:
            raise site.error("all weights are 0; at least one must be positive")

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        row = self.query - context.offset
        if not 0 <= row < tensor.shape[2]:
            return tensor
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        masked = None if context.masked is None else context.masked[:, heads, row]
        changed = tensor.clone()
        changed[:, heads, row] = self._rows(tensor[:, heads, row], masked, context.site)
        return changed

    def _rows(self, rows: Tensor, masked: Tensor | None, site: Site) -> Tensor:
        """Rows with the weights that are set, and the rest of 1 on the other keys."""
        keys = rows.shape[-1]
        new = rows.clone() if isinstance(self.weights, Mapping) else torch.zeros_like(rows)
        new[..., [key for key in self.by_key if key < keys]] = 0
        rest = 1 - sum(self.by_key.values())
        # If the other keys have no weight, there are no proportions to share the rest in.
        new = new * (max(rest, 0.0) / new.sum(-1, keepdim=True)).nan_to_num(0, 0, 0)
        for key, weight in self.by_key.items():
            if weight and (key >= keys or (masked is not None and bool(masked[..., key].any()))):
                reason = f"keys are 0 to {keys - 1}" if key >= keys else "it is masked"
                raise site.error(
                    f"query {self.query} cannot attend to key {key} ({reason}); leave its weight at 0"
                )
            if key < keys:
                new[..., key] = weight
        total = new.sum(-1, keepdim=True)
        if not bool(total.all()):
            raise site.error(f"query {self.query} has no other key to attend to; leave it some weight")
        return new / total


@dataclass(frozen=True)
class Patch(Edit):
    """Copies the tensor of another pass, or only some heads or positions of it.

    Positions may be mapped: {5: 4} copies position 4 of the other pass to position 5.
    """

    trace: Mapping[str, Tensor] = field(repr=False)
    heads: Sequence[int] | None = None
    positions: Sequence[int] | Mapping[int, int] | None = None

    @property
    def positions_used(self) -> Collection[int]:
        return self.positions or ()

    def check(self, site: Site) -> None:
        if self.heads is not None:
            _check_heads(site, self.heads)
        copied = self.positions.values() if isinstance(self.positions, Mapping) else self.positions or ()
        _check_positions(site, [*(self.positions or ()), *copied])
        if self.positions is not None and site.tensor == "pixels":
            raise site.error("has no positions; hide some of the patches with HidePatches")
        if not isinstance(self.trace, Mapping):
            raise site.error(f"{self.trace!r:.40} is not a trace; pass the result of capture")
        if not isinstance(self.trace.get(site.name), Tensor):
            raise site.error("not in the patched trace; capture it there")
        length = position_count(site, self.trace[site.name])
        for position in copied:
            if position >= length:
                raise site.error(f"position {position} is not in the patched trace; it has 0 to {length - 1}")

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        name, axis = context.site.tensor, position_axis(context.site.module, context.site.tensor)
        other = self.trace[context.site.name].to(tensor)
        # A cached step has the logits of one position, without an axis for it.
        here = tensor.unsqueeze(1) if tensor.dim() < other.dim() else tensor
        other = other[..., : here.shape[-1]] if name in BY_QUERY else other
        self._check_shape(here, other, axis, context.site)
        offset = 0 if name in BY_KEY else context.offset
        pairs = self._pairs(range(offset, offset + here.shape[axis]), other.shape[axis])
        copied = other.index_select(axis, _index([at for _, at in pairs], tensor))
        copied = copied.expand(len(here), *copied.shape[1:])
        patched = here.index_copy(axis, _index([to - offset for to, _ in pairs], tensor), copied)
        if self.heads is not None:
            patched = here.index_copy(1, _index(self.heads, tensor), patched[:, list(self.heads)])
        return patched.reshape(tensor.shape)

    def _pairs(self, here: range, length: int) -> list[tuple[int, int]]:
        """The positions of this pass and those of the other pass that they are copied from."""
        positions = range(length) if self.positions is None else self.positions
        pairs = positions.items() if isinstance(positions, Mapping) else ((one, one) for one in positions)
        return [(to, at) for to, at in pairs if to in here and at < length]

    def _check_shape(self, here: Tensor, other: Tensor, axis: int, site: Site) -> None:
        expected = list(here.shape)
        expected[axis] = other.shape[axis]
        if list(other.shape) not in (expected, [1, *expected[1:]]):
            raise site.error(
                f"{tuple(other.shape)} in the trace does not fit {tuple(here.shape)} in the model; "
                "patch from a pass of the same model, with as many keys if the tensor has an axis of keys"
            )


@dataclass(frozen=True)
class Swap(Edit):
    """Replaces the vectors at positions; at `token_embeddings` also by the id of another token."""

    vectors: Mapping[int, int | Sequence[float] | Tensor]

    @property
    def positions_used(self) -> Collection[int]:
        return self.vectors

    def check(self, site: Site) -> None:
        _check_mapping(site, self.vectors, "{position: vector}")
        if site.tensor in (*ATTENTION, "logits", "position_ids", "pixels"):
            raise site.error("has no vector for each token; swap token_embeddings, stream, added or states")
        _check_positions(site, self.vectors)
        for position, vector in self.vectors.items():
            if isinstance(vector, int):
                _check_token(site, vector)
            elif not _is_finite(vector):
                raise site.error(f"the vector for position {position} is not of finite numbers")

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        changed = tensor.clone()
        rows = changed.movedim(position_axis(context.site.module, context.site.tensor), 1)
        for position, vector in self.vectors.items():
            if 0 <= position - context.offset < rows.shape[1]:
                rows[:, position - context.offset] = _vector(vector, tensor, context.site)
        return changed


@dataclass(frozen=True)
class SetPosition(Edit):
    """Changes positions: with {2: 5}, the token at position 2 is encoded as if at position 5."""

    positions: Mapping[int, int]

    @property
    def positions_used(self) -> Collection[int]:
        return self.positions

    def check(self, site: Site) -> None:
        _check_mapping(site, self.positions, "{position: new position}")
        if site.tensor != "position_ids":
            raise site.error(
                "has no positions; edit the position_ids of an embedding, or of a stack with rotary positions"
            )
        _check_positions(site, [*self.positions, *self.positions.values()])
        module: Any = site.module
        rotates = isinstance(site.module, Stack)
        max_length = len(module.blocks[0].attention.relative.cosines) if rotates else module.max_positions
        for position in (*self.positions, *self.positions.values()):
            if position >= max_length:
                raise site.error(f"position {position} is beyond the model's last, {max_length - 1}")

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        changed = tensor.clone()
        for position, new in self.positions.items():
            changed[tensor == position] = new
        return changed


@dataclass(frozen=True)
class HidePatches(Edit):
    """Covers patches of an image, each named by its row and column, with one colour.

    The colour is that of pixels that are 0 after normalisation: the mean of the processor.
    """

    patches: Sequence[tuple[int, int]]

    def check(self, site: Site) -> None:
        if site.tensor != "pixels":
            raise site.error("not the pixels of an image; edit the pixels of an embedding of patches")
        if not isinstance(self.patches, Sequence) or not all(map(_is_patch, self.patches)):
            raise site.error(f"{self.patches!r} are not patches; pass [(row, column), …], counted from 0")

    def apply(self, tensor: Tensor, context: EditContext) -> Tensor:
        assert isinstance(context.site.module, PatchEmbedding)
        size = context.site.module.patch_size
        rows, columns = (side // size for side in tensor.shape[-2:])
        changed = tensor.clone()
        for row, column in self.patches:
            if row >= rows or column >= columns:
                raise context.site.error(
                    f"there is no patch {row},{column}; the image has {rows} rows of {columns}"
                )
            changed[..., row * size : (row + 1) * size, column * size : (column + 1) * size] = 0
        return changed


def position_count(site: Site, tensor: Tensor) -> int:
    """The number of positions in a tensor of a site."""
    if site.tensor == "position_ids":
        return tensor.shape[-1]
    # A cached step has the logits of one position, without an axis for it.
    one = site.tensor == "logits" and tensor.dim() < 3
    return 1 if one else tensor.shape[position_axis(site.module, site.tensor)]


def _index(values: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(list(values), dtype=torch.long, device=like.device)


def _vector(vector: int | Sequence[float] | Tensor, like: Tensor, site: Site) -> Tensor:
    """A vector as given, or the embedding of a token."""
    if isinstance(vector, int):
        embedding = site.module
        assert isinstance(embedding, Embedding)
        return embedding.weight[vector] * embedding.scale
    given = torch.as_tensor(vector).to(like)
    if given.shape != like.shape[-1:]:
        raise site.error(f"the vector has {given.numel()} numbers, not {like.shape[-1]}")
    return given


def _is_finite(vector: object) -> bool:
    try:
        return bool(torch.as_tensor(vector, dtype=torch.float).isfinite().all())
    except (TypeError, ValueError, RuntimeError):
        return False


def _check_heads(site: Site, heads: Sequence[int]) -> None:
    if not isinstance(site.module, Attention) or site.tensor not in ATTENTION:
        raise site.error("has no heads; edit a step of an attention, such as decoder.*.attention.head_output")
    if not isinstance(heads, Sequence):
        raise site.error(f"{heads!r} is not a list of heads; pass [{heads!r}]")
    count = site.module.output.in_features // site.module.head_size
    for head in heads:
        if head not in range(count):
            raise site.error(f"there is no head {head}; heads are 0 to {count - 1}")


def _check_positions(site: Site, positions: Sequence[int] | Mapping[int, object]) -> None:
    for position in positions:
        if not isinstance(position, int) or position < 0:
            raise site.error(f"{position!r} is not a position; positions count from 0")


def _is_patch(patch: object) -> bool:
    return (
        isinstance(patch, Sequence)
        and len(patch) == 2
        and all(isinstance(one, int) and one >= 0 for one in patch)
    )


def _check_mapping(site: Site, given: object, form: str) -> None:
    if not isinstance(given, Mapping):
        raise site.error(f"{given!r} is not a mapping of positions; pass {form}")


def _check_token(site: Site, token: int) -> None:
    if not isinstance(site.module, Embedding) or site.tensor != "token_embeddings":
        raise site.error("takes vectors; only token_embeddings takes the id of a token")
    if token not in range(len(site.module.weight)):
        raise site.error(f"there is no token {token}; ids are 0 to {len(site.module.weight) - 1}")

"""What can be changed inside a model while it runs: edits are values, printed as the Python that makes them.

Positions count from the first word, in a full pass as in the cached steps of a search.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clearhead.errors import SettingsError
from clearhead.inspection.sites import ATTENTION, Site
from clearhead.layers.attention import Attention
from clearhead.layers.block import Block, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.positions import Rotary

BY_QUERY = ("scores", "masked", "weights")
"""Steps of an attention that have an axis of keys behind that of queries."""
BY_KEY = ("keys", "values")
"""Steps that have all positions so far, not only those of the words that are asked for."""
LARGEST_WEIGHT = 1e30
"""Single precision holds a row of such."""


@dataclass(frozen=True)
class Scene:
    """What an edit may have to know of the pass that it changes."""

    site: Site
    first: int = 0
    """The position of the first word in it: a cached step begins where the last one ended."""
    hidden: Tensor | None = None
    """Of weights: which keys the mask hides from which queries."""


class Edit:
    """A change of the tensors at a site."""

    @property
    def at(self) -> Collection[int]:
        """The positions that it names; none, if it is for all of them."""
        return ()

    def check(self, site: Site) -> None:
        """Refuses a site at which it makes no sense."""
        raise NotImplementedError

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Mute(Edit):
    """Silences these heads: zeros stand where they have something."""

    heads: Sequence[int]

    def check(self, site: Site) -> None:
        _check_heads(site, self.heads)

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        return tensor.index_fill(1, _numbers(self.heads, tensor), 0)


@dataclass(frozen=True)
class Keep(Edit):
    """Silences all heads but these."""

    heads: Sequence[int]

    def check(self, site: Site) -> None:
        _check_heads(site, self.heads)

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        others = [head for head in range(tensor.shape[1]) if head not in self.heads]
        return Mute(others).change(tensor, scene)


@dataclass(frozen=True)
class Row(Edit):
    """What one query looks at, in one head or in all: a weight for each key, divided by their sum.

    With a mapping, these keys get these weights, and the others share the rest in the proportions they had.
    """

    query: int
    weights: Sequence[float] | Tensor | Mapping[int, float]
    head: int | None = None

    @property
    def at(self) -> Collection[int]:
        return (self.query,)

    @property
    def given(self) -> dict[int, float]:
        """The weight of each key that is named."""
        weights = self.weights.tolist() if isinstance(self.weights, Tensor) else self.weights
        return dict(weights if isinstance(weights, Mapping) else enumerate(weights))

    def check(self, site: Site) -> None:
        if site.shown != "weights":
            raise SettingsError(
                f"{site.name}: has no rows of weights; edit {site.path}.weights, if it is an attention"
            )
        if not isinstance(self.weights, Sequence | Tensor | Mapping):
            raise SettingsError(
                f"{site.name}: {self.weights!r} is no row; give a weight for each key, or {{key: weight}}"
            )
        _check_heads(site, [] if self.head is None else [self.head])
        _check_places(site, [self.query, *self.given])
        for weight in self.given.values():
            if not (isinstance(weight, int | float) and 0 <= weight <= LARGEST_WEIGHT):
                raise SettingsError(
                    f"{site.name}: {weight!r} is no weight; give numbers from 0 to {LARGEST_WEIGHT:g}"
                )
        total = sum(self.given.values())
        if isinstance(self.weights, Mapping) and total > 1:
            raise SettingsError(
                f"{site.name}: weights of {total:g} in all leave nothing to share; give at most 1"
            )
        if not isinstance(self.weights, Mapping) and not total:
            raise SettingsError(f"{site.name}: the weights are all 0; let the query look at something")

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        at = self.query - scene.first
        if not 0 <= at < tensor.shape[2]:
            return tensor
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        hidden = None if scene.hidden is None else scene.hidden[:, heads, at]
        changed = tensor.clone()
        changed[:, heads, at] = self._mixed(tensor[:, heads, at], hidden, scene.site.name)
        return changed

    def _mixed(self, rows: Tensor, hidden: Tensor | None, name: str) -> Tensor:
        """The rows with the weights that are given, and what is left of 1 for the other keys."""
        keys = rows.shape[-1]
        new = rows.clone() if isinstance(self.weights, Mapping) else torch.zeros_like(rows)
        new[..., [key for key in self.given if key < keys]] = 0
        left = 1 - sum(self.given.values())
        # Where the others have nothing, there are no proportions in which they could share.
        new = new * (max(left, 0.0) / new.sum(-1, keepdim=True)).nan_to_num(0, 0, 0)
        for key, weight in self.given.items():
            if weight and (key >= keys or (hidden is not None and bool(hidden[..., key].any()))):
                seen = f"keys are 0 to {keys - 1}" if key >= keys else "by the mask"
                raise SettingsError(
                    f"{name}: key {key} is hidden from query {self.query} ({seen}); give it no weight"
                )
            if key < keys:
                new[..., key] = weight
        total = new.sum(-1, keepdim=True)
        if not bool(total.all()):
            raise SettingsError(f"{name}: query {self.query} has no other key to look at; leave some weight")
        return new / total


@dataclass(frozen=True)
class Patch(Edit):
    """What another pass had at the same site: all of it, or only in some heads or at some positions.

    Positions may be mapped: with {5: 4}, position 5 gets what stood at position 4.
    """

    trace: Mapping[str, Tensor] = field(repr=False)
    heads: Sequence[int] | None = None
    positions: Sequence[int] | Mapping[int, int] | None = None

    @property
    def at(self) -> Collection[int]:
        return self.positions or ()

    def check(self, site: Site) -> None:
        if self.heads is not None:
            _check_heads(site, self.heads)
        taken = self.positions.values() if isinstance(self.positions, Mapping) else self.positions or ()
        _check_places(site, [*(self.positions or ()), *taken])
        if not isinstance(self.trace, Mapping):
            raise SettingsError(f"{site.name}: {self.trace!r:.40} is no trace; patch from what capture gave")
        if not isinstance(self.trace.get(site.name), Tensor):
            raise SettingsError(f"{site.name}: not in the trace that is to be patched in; capture it there")
        there = places_of(site, self.trace[site.name])
        for position in taken:
            if position >= there:
                raise SettingsError(
                    f"{site.name}: position {position} is not in the trace that is to be patched in, which has 0 "
                    f"to {there - 1}"
                )

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        shown, axis = scene.site.shown, 2 if scene.site.shown in ATTENTION else 1
        other = self.trace[scene.site.name].to(tensor)
        # A step gives the logits of one position, without an axis for it.
        here = tensor.unsqueeze(1) if tensor.dim() < other.dim() else tensor
        other = other[..., : here.shape[-1]] if shown in BY_QUERY else other
        self._check_fit(here, other, axis, scene.site.name)
        first = 0 if shown in BY_KEY else scene.first
        pairs = self._pairs(range(first, first + here.shape[axis]), other.shape[axis])
        taken = other.index_select(axis, _numbers([at for _, at in pairs], tensor))
        taken = taken.expand(len(here), *taken.shape[1:])
        patched = here.index_copy(axis, _numbers([to - first for to, _ in pairs], tensor), taken)
        if self.heads is not None:
            patched = here.index_copy(1, _numbers(self.heads, tensor), patched[:, list(self.heads)])
        return patched.reshape(tensor.shape)

    def _pairs(self, here: range, there: int) -> list[tuple[int, int]]:
        """Which position takes from which, of those that are in this pass and in the other one."""
        positions = range(there) if self.positions is None else self.positions
        mapped = (
            positions if isinstance(positions, Mapping) else {position: position for position in positions}
        )
        return [(to, at) for to, at in mapped.items() if to in here and at < there]

    def _check_fit(self, here: Tensor, other: Tensor, axis: int, name: str) -> None:
        asked = list(here.shape)
        asked[axis] = other.shape[axis]
        if list(other.shape) not in (asked, [1, *asked[1:]]):
            raise SettingsError(
                f"{name}: {tuple(other.shape)} in the trace does not fit {tuple(here.shape)} in the model; "
                "patch from a text of the same model, and of the same length where keys are counted"
            )


@dataclass(frozen=True)
class Swap(Edit):
    """Other vectors at positions; among the words of an embedding, also other tokens, by their ids."""

    vectors: Mapping[int, int | Sequence[float] | Tensor]

    @property
    def at(self) -> Collection[int]:
        return self.vectors

    def check(self, site: Site) -> None:
        _check_mapping(site, self.vectors, "{position: vector}")
        if site.shown in (*ATTENTION, "logits", "position_ids"):
            raise SettingsError(
                f"{site.name}: has no vectors of words; swap those of words, stream, added or states"
            )
        _check_places(site, self.vectors)
        for position, vector in self.vectors.items():
            if isinstance(vector, int):
                _check_token(site, vector)
            elif not _is_vector(vector):
                raise SettingsError(
                    f"{site.name}: the vector for position {position} has what is no number in it"
                )

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        changed = tensor.clone()
        for position, vector in self.vectors.items():
            if 0 <= position - scene.first < tensor.shape[1]:
                changed[:, position - scene.first] = _vector(vector, tensor, scene.site)
        return changed


@dataclass(frozen=True)
class Move(Edit):
    """Words that stand elsewhere: with {2: 5}, the word at position 2 is taken for one at position 5."""

    positions: Mapping[int, int]

    @property
    def at(self) -> Collection[int]:
        return self.positions

    def check(self, site: Site) -> None:
        _check_mapping(site, self.positions, "{position: other position}")
        if site.shown != "position_ids":
            raise SettingsError(
                f"{site.name}: has no positions; move those of an embedding, or of rotary positions"
            )
        _check_places(site, [*self.positions, *self.positions.values()])
        max_length = _longest(site)
        for position in (*self.positions, *self.positions.values()):
            if position >= max_length:
                raise SettingsError(
                    f"{site.name}: position {position} is beyond the model's last, {max_length - 1}"
                )

    def change(self, tensor: Tensor, scene: Scene) -> Tensor:
        moved = tensor.clone()
        for position, to in self.positions.items():
            moved[tensor == position] = to
        return moved


def places_of(site: Site, tensor: Tensor) -> int:
    """How many positions a tensor of a site has."""
    if site.shown in ATTENTION:
        return tensor.shape[2]
    if site.shown == "position_ids":
        return tensor.shape[-1]
    # A step gives the logits of one position, without an axis for it.
    return 1 if site.shown == "logits" and tensor.dim() < 3 else tensor.shape[1]


def _numbers(values: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(list(values), dtype=torch.long, device=like.device)


def _vector(vector: int | Sequence[float] | Tensor, like: Tensor, site: Site) -> Tensor:
    """A vector as it is given, or that of a token in the site's embedding."""
    if isinstance(vector, int):
        embedding = site.module
        assert isinstance(embedding, Embedding)
        return embedding.weight[vector] * embedding.scale
    given = torch.as_tensor(vector).to(like)
    if given.shape != like.shape[-1:]:
        raise SettingsError(f"{site.name}: {given.numel()} numbers for a vector of {like.shape[-1]}")
    return given


def _longest(site: Site) -> int:
    """So many positions the positions of a site know."""
    if isinstance(site.module, Embedding):
        return site.module.max_positions
    assert isinstance(site.module, Stack)
    block = site.module.blocks[0]
    assert isinstance(block, Block)
    assert isinstance(block.attention.relative, Rotary)
    return len(block.attention.relative.cosines)


def _is_vector(vector: object) -> bool:
    try:
        return bool(torch.as_tensor(vector, dtype=torch.float).isfinite().all())
    except (TypeError, ValueError, RuntimeError):
        return False


def _check_heads(site: Site, heads: Sequence[int]) -> None:
    if not isinstance(site.module, Attention) or site.shown not in ATTENTION:
        raise SettingsError(
            f"{site.name}: has no heads; name a step of an attention, such as decoder.*.attention.head_output"
        )
    if not isinstance(heads, Sequence):
        raise SettingsError(f"{site.name}: {heads!r} is no list of heads; give [{heads!r}]")
    count = site.module.output.in_features // site.module.head_size
    for head in heads:
        if head not in range(count):
            raise SettingsError(f"{site.name}: there is no head {head}; heads are 0 to {count - 1}")


def _check_places(site: Site, positions: Sequence[int] | Mapping[int, object]) -> None:
    for position in positions:
        if not isinstance(position, int) or position < 0:
            raise SettingsError(f"{site.name}: positions count from 0, and there is no {position!r}")


def _check_mapping(site: Site, given: object, form: str) -> None:
    if not isinstance(given, Mapping):
        raise SettingsError(f"{site.name}: {given!r} is no mapping of positions; give {form}")


def _check_token(site: Site, token: int) -> None:
    if not isinstance(site.module, Embedding) or site.shown != "token_embeddings":
        raise SettingsError(
            f"{site.name}: takes vectors; a token by its id goes to the words of an embedding"
        )
    if token not in range(len(site.module.weight)):
        raise SettingsError(
            f"{site.name}: there is no token {token}; ids end at {len(site.module.weight) - 1}"
        )

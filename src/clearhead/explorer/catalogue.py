"""The tensors of a trace: names, roles, axes and shapes, without computing any."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.explorer.architecture import attentions, vocabulary_of, width_of
from clearhead.inspection import sites
from clearhead.inspection.explanation_summaries import POOLING
from clearhead.models.anatomy import RESIDUALS

SQUARE = ("scores", "masked", "weights")
EMBEDDINGS = ("token_embeddings", "position_embeddings", "stream")
"""The sites of an embedding."""


@dataclass(frozen=True)
class Entry:
    """A tensor, or one per layer: then its name has a * for the layer."""

    name: str
    role: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    about: Mapping[str, str]
    """The attention, side, stack, sub-layer or recurrence it belongs to."""

    @property
    def names(self) -> list[str]:
        """The full names, by layer."""
        layers = range(self.shape[0]) if "*" in self.name else ()
        return [self.name.replace("*", str(layer)) for layer in layers] or [self.name]

    @property
    def dtypes(self) -> tuple[str, ...]:
        return ("f32", "f16", "u8s") if self.role == "weights" else ("f32", "f16")

    def record(self) -> dict[str, Any]:
        shape = {"axes": list(self.axes), "shape": list(self.shape), "dtypes": list(self.dtypes)}
        return {"name": self.name, "role": self.role, **self.about, **shape}


def catalogue(model: Any, lengths: Mapping[str, int]) -> dict[str, Entry]:
    """The tensors of a pass over inputs with this many positions per side, by name."""
    there = sites(model)
    found = [*_embeddings(model, lengths), *_attentions(model, lengths), *_streams(model, lengths)]
    found += _recurrences(model, lengths, there)
    of = lengths[model.anatomy().output_side]
    found += [
        Entry(name, name, ("positions", name), (of, size), {})
        for name, size in getattr(model, "tapped", {}).items()
    ]
    found.append(Entry(POOLING, "pooling_scores", ("positions", "scores"), (of, 1), {}))
    if vocabulary := vocabulary_of(model):
        found.append(Entry("logits", "logits", ("queries", "vocabulary"), (of, vocabulary), {}))
    return {entry.name: entry for entry in found if all(name in there for name in entry.names)}


def pattern_of(name: str) -> tuple[str, int | None]:
    """A full name with a * for its layer, and that layer."""
    found = re.match(r"((?:.*\.)?(?:blocks|layers)\.)(\d+)(\..*)", name)
    return (f"{found[1]}*{found[3]}", int(found[2])) if found else (name, None)


def _embeddings(model: Any, lengths: Mapping[str, int]) -> list[Entry]:
    found, axes, width = [], ("positions", "width"), width_of(model) or 0
    for side, path in model.anatomy().embeddings.items():
        for site in EMBEDDINGS:
            role = "embedding" if site == "stream" else site
            found.append(Entry(f"{path}.{site}", role, axes, (lengths[side], width), {"side": side}))
    return found


def _attentions(model: Any, lengths: Mapping[str, int]) -> list[Entry]:
    found = []
    for one in attentions(model):
        size, queries, keys = one["head_size"], lengths[one["queries"]], lengths[one["keys"]]
        shapes = {
            "queries": (("positions", "head_size"), (queries, size)),
            "keys": (("positions", "head_size"), (keys, size)),
            "values": (("positions", "head_size"), (keys, size)),
            **dict.fromkeys(SQUARE, (("queries", "keys"), (queries, keys))),
            "head_output": (("queries", "head_size"), (queries, size)),
        }
        for role, (axes, shape) in shapes.items():
            shape = (one["layers"], one["heads"], *shape)
            about = {"attention": one["name"]}
            found.append(Entry(f"{one['path']}.{role}", role, ("layers", "heads", *axes), shape, about))
    return found


def _streams(model: Any, lengths: Mapping[str, int]) -> list[Entry]:
    width, found = width_of(model) or 0, []
    for stack in model.anatomy().stacks:
        axes, shape = ("layers", "positions", "width"), (stack.layers, lengths[stack.side], width)
        about = {"stack": stack.path, "side": stack.side}
        for sublayer in (one for one in stack.sublayers if one in RESIDUALS):
            of = {**about, "sublayer": sublayer}
            found.append(Entry(stack.added("*", sublayer), "added", axes, shape, of))
            found.append(Entry(stack.stream("*", sublayer), "stream", axes, shape, of))
        states = f"{stack.path}.states".removeprefix(".")
        found.append(Entry(states, "states", axes[1:], shape[1:], about))
    return found


def _recurrences(model: Any, lengths: Mapping[str, int], there: Iterable[str]) -> list[Entry]:
    found, axes = [], ("layers", "directions", "positions", "width")
    for part in model.anatomy().recurrences:
        first = part.site(0, "")
        width = model.get_submodule(first.removesuffix(".")).width
        shape = (part.layers, part.directions, lengths[part.side], width)
        about = {"recurrence": part.path, "side": part.side}
        for tensor in (name.removeprefix(first) for name in there if name.startswith(first)):
            found.append(Entry(part.site("*", tensor), tensor, axes, shape, about))
    return found

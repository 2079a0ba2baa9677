"""A trace as a page asks for it: its manifest, its numbers slice by slice, and what is measured on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import Tree
from clearhead.errors import SettingsError
from clearhead.tasks.explaining import Explanation, Token, not_captured
from clearhead.tasks.showing.architecture import attentions
from clearhead.tasks.showing.arrays import Array, array_of, pooled, sliced
from clearhead.tasks.showing.catalogue import Entry, catalogue, pattern_of
from clearhead.tasks.showing.changes import Changes
from clearhead.tasks.showing.distribution import Cut, distribution

FORMAT = 1
PARTS = ("summaries", "logits", "lens", "beam", "contributions", "projection")
Look = Callable[[Sequence[str]], Mapping[str, Tensor]]
"""The same pass once more, for tensors that were not kept."""


class UnknownTensorError(SettingsError):
    """A trace has no tensor of this name."""


@dataclass
class Told:
    """An explanation, and what is asked about it."""

    explanation: Explanation
    about: Mapping[str, Any]
    """The map of the model."""
    look: Look
    asked: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    python: str = ""
    before: Mapping[str, Any] | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._tensors = {name: self.explanation[name] for name in self.explanation.trace}
        self.bytes = _bytes(self._tensors)
        self.model, self.tokenizer = self.explanation.model, self.explanation.tokenizer
        self.device = self.model.readout_weight.device
        self.catalogue = catalogue(self.model, {side: len(words) for side, words in self.sides.items()})

    @property
    def name(self) -> str:
        """Under which the model was loaded."""
        return self.about["name"]

    @property
    def sides(self) -> dict[str, tuple[Token, ...]]:
        if self.explanation.kind == "gpt":
            return {"text": self.explanation.target}
        return {"source": self.explanation.source, "target": self.explanation.target}

    @property
    def read(self) -> tuple[Token, ...]:
        """The side that is read out."""
        return self.explanation.target

    def manifest(self) -> dict[str, Any]:
        """Everything but the numbers."""
        told = self.explanation
        return {
            "format": FORMAT,
            "id": "",
            "kind": told.kind,
            "model": self.about,
            "text": told.text,
            "normalised": told.normalized,
            "to": told.settings.get("to"),
            "sides": {side: [one.record() for one in words] for side, words in self.sides.items()},
            "output": self._output(),
            "before": self.before,
            "agreement": told.difference,
            "interventions": list(self.asked.get("interventions", ())),
            "python": self.python,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "tensors": [entry.record() for entry in self.catalogue.values()],
            "parts": [part for part in PARTS if part != "beam" or self.tree is not None],
        }

    @property
    def tree(self) -> Tree | None:
        return self.explanation.tree

    def entry(self, name: str) -> tuple[Entry, list[str], tuple[str, ...]]:
        """What a name stands for: its entry, the full names of its tensors, and its axes."""
        pattern, layer = pattern_of(name)
        if pattern not in self.catalogue:
            raise UnknownTensorError(
                f"tensor: {name!r:.80} is not in this trace; its manifest lists the names"
            )
        entry = self.catalogue[pattern]
        if layer is None:
            return entry, entry.names, entry.axes
        if layer >= entry.shape[0]:
            raise UnknownTensorError(f"tensor: {name!r:.80} has layers 0 to {entry.shape[0] - 1}")
        return entry, [entry.names[layer]], entry.axes[1:]

    def holds(self, name: str, layer: int | None = None) -> bool:
        """Whether the numbers are there; if not, `look` computes them once more."""
        return all(one in self._tensors for one in self._wanted(name, layer))

    def fetch(self, name: str, layer: int | None = None) -> None:
        """Computes what is not there, and keeps it."""
        missing = [one for one in self._wanted(name, layer) if one not in self._tensors]
        if missing:
            found = self.look(missing)
            self._tensors.update({one: found[one] for one in missing})
            self.bytes += _bytes(found)

    def tensor(
        self, name: str, chosen: Mapping[str, int | None], dtype: str = "f32", pool: int | None = None
    ) -> Array:
        """A slice of a tensor; `chosen` takes one entry of an axis."""
        entry, _, axes = self.entry(name)
        if dtype not in entry.dtypes:
            raise SettingsError(
                f"dtype: {dtype!r:.20} of {entry.role} is not one of {', '.join(entry.dtypes)}"
            )
        if pool is not None and entry.role != "weights":
            raise SettingsError(f"pool: is for weights, not for {entry.role}")
        chosen = dict(chosen)
        if "queries" not in axes and "places" in axes:
            chosen["places"] = chosen.pop("queries", None)
        layer = chosen.pop("layers", None)
        if layer is not None and "layers" not in axes:
            raise SettingsError(f"layer: {name} is of one layer, or of none; leave it out")
        held = self.values(name, layer)
        axes = axes if layer is None else axes[1:]
        held = sliced(held, axes, chosen)
        if pool is not None and held.dim() >= 2:
            held = pooled(held, pool)
        return array_of(held, dtype)

    def values(self, name: str, layer: int | None = None) -> Tensor:
        """A tensor as it is; of all layers together where none is named."""
        wanted = self._wanted(name, layer)
        for one in wanted:
            if one not in self._tensors:
                raise not_captured(one)
        if "*" in name and layer is None:
            return torch.stack([self._tensors[one] for one in wanted])
        return self._tensors[wanted[0]]

    def logits(self, place: int, cut: Cut) -> dict[str, Any]:
        """The next token at one place."""
        self.check_place(place)
        following = self.read[place].next
        told = distribution(self.tokenizer, self.values("logits")[place], cut, following)
        return {"place": place, **told}

    def check_place(self, place: int, side: str | None = None) -> None:
        length = len(self.read if side is None else self.sides[side])
        if not 0 <= place < length:
            raise SettingsError(f"place: {place} is not from 0 to {length - 1}")

    def attention(self, key: str) -> dict[str, Any]:
        """The map's entry of a kind of attention."""
        found = {one["key"]: one for one in attentions(self.model)}
        if key not in found:
            raise SettingsError(f"attention: {key!r:.80} is not one of {', '.join(found)}")
        return found[key]

    def _wanted(self, name: str, layer: int | None) -> list[str]:
        _, names, axes = self.entry(name)
        if layer is None or "layers" not in axes:
            return names
        if not 0 <= layer < len(names):
            raise SettingsError(f"layer: {layer} is not from 0 to {len(names) - 1}")
        return [names[layer]]

    def _output(self) -> dict[str, Any]:
        told, found = self.explanation, self.explanation.found
        said = [one for one in self.read if one.next is not None]
        if told.kind == "gpt":
            first = sum(not one.written for one in self.read) - 1
            said = said[first:]
        pieces = self.tokenizer.pieces([one.next or 0 for one in said])
        return {
            "text": told.output,
            "score": getattr(found, "score", None),
            "log_probability": sum(one.log_probability or 0.0 for one in said),
            "complete": getattr(found, "complete", True),
            "tokens": [
                {"id": one.next, "piece": piece, "log_probability": one.log_probability}
                for one, piece in zip(said, pieces, strict=True)
            ],
            "nbest": [
                {"text": one.text, "score": one.score, "log_probability": one.log_probability}
                for one in getattr(found, "nbest", ())
            ],
        }


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def brief(told: Explanation) -> dict[str, Any]:
    """The output in a few words."""
    score = getattr(told.found, "score", None)
    return {"text": told.output, "score": score, "log_probability": told.log_probability}

"""A trace as a page asks for it: its manifest, its numbers slice by slice, and what is measured on it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding import Tree
from clearhead.errors import ClearheadError, ModelError, SettingsError
from clearhead.explorer.architecture import attentions
from clearhead.explorer.arrays import Array, array_of, pooled, sliced
from clearhead.explorer.catalogue import Entry, catalogue, pattern_of
from clearhead.explorer.distribution import Cut, distribution
from clearhead.explorer.interventions import Changes
from clearhead.explorer.pending import PendingTrace, look, look_up_to
from clearhead.inspection.explanation import Explanation, Token
from clearhead.inspection.trace import CapturedPass

FORMAT = 1
PARTS = ("summaries", "logits", "lens", "beam", "contributions", "projection")
NODE_BYTES = 500
"""Of a hypothesis in the tree of a search, about."""


class UnknownTensorError(SettingsError):
    """A trace has no tensor of this name."""


class StoppedError(ClearheadError):
    """A pass was not run to its end."""


@dataclass
class TraceSession:
    """An explanation, and what is asked about it; of what `run` is to bring, nothing is there yet."""

    explanation: Explanation
    about: Mapping[str, Any]
    """The map of the model."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    python: str = ""
    awaited: Sequence[str] = ()
    """Tensors that `run` brings."""
    earlier: Callable[[], Mapping[str, Any]] | None = None
    """The output without the changes."""
    seconds: float = 0.0
    before: Mapping[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        there = {name: self.explanation[name] for name in self.explanation.trace}
        self._tensors, self._stopped = PendingTrace(there, self.awaited), False
        self.model, self.tokenizer = self.explanation.model, self.explanation.processor
        self.device = self.model.readout_weight.device
        self.catalogue = catalogue(self.model, {side: len(words) for side, words in self.sides.items()})

    def run(self, alone: AbstractContextManager[Any] | None = None) -> None:
        """The pass that brings what is awaited, then a fused one beside it; whoever waits is told of errors.

        `alone` holds the model meanwhile.
        """
        try:
            with alone or nullcontext():
                self._look()
        except Exception as error:
            self._tensors.end(error)
        else:
            self._tensors.end()

    @torch.no_grad()
    def _look(self) -> None:
        started = time.perf_counter()
        logits = look(self.explanation, self.changes, self.awaited, self._keep)
        self.seconds += time.perf_counter() - started
        if logits.isnan().any():
            raise ModelError(
                f"{self.name}: the model gave no numbers (NaN); its weights or its precision are broken"
            )
        fused = look(self.explanation, self.changes, (), self._keep)
        difference = float((logits - fused).abs().max())
        self.explanation = self.explanation.with_pass(CapturedPass(self._tensors.trace(), logits, difference))
        self.before = self.earlier() if self.earlier else None

    def _keep(self, name: str, tensor: Tensor) -> None:
        if self._stopped:
            raise StoppedError(f"{self.name}: the pass was stopped, as nobody waited for it any more")
        self._tensors.put(name, tensor)

    def stop(self) -> None:
        """Ends a pass that is under way with the next tensor that it brings."""
        self._stopped = True

    def ended(self, seconds: float) -> bool:
        """Whether no pass is under way, after so many seconds at most."""
        return self._tensors.ended(seconds)

    def wait(self) -> "TraceSession":
        """This, once all that `run` brings is there."""
        self._tensors.wait()
        return self

    @property
    def bytes(self) -> int:
        return self._tensors.bytes + NODE_BYTES * (len(self.tree.nodes) if self.tree else 0)

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
        """Everything but the numbers; what only the pass tells is None before its end."""
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
            "agreement": None if math.isnan(told.difference) else told.difference,
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
        """Whether the numbers are there or on their way; if not, `fetch` computes them once more."""
        return self._tensors.coming(self._wanted(name, layer))

    def fetch(self, name: str, layer: int | None = None) -> None:
        """Computes what is not there, and keeps it."""
        missing = [one for one in self._wanted(name, layer) if not self._tensors.coming([one])]
        if missing:
            for one, tensor in look_up_to(self.explanation, self.changes, missing).items():
                self._tensors.put(one, tensor)

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
        found, layered = self._tensors.get(self._wanted(name, layer)), "layers" in axes
        # Layer by layer, so that of large tensors no more is put together than is asked for.
        parts = [sliced(one, axes[layered:], chosen) for one in found]
        if pool is not None and parts[0].dim() >= 2:
            parts = [pooled(one, pool) for one in parts]
        return array_of(torch.stack(parts) if layered and layer is None else parts[0], dtype)

    def values(self, name: str, layer: int | None = None) -> Tensor:
        """A tensor as it is; of all layers together where none is named."""
        found = self._tensors.get(self._wanted(name, layer))
        return torch.stack(found) if "*" in name and layer is None else found[0]

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
        log_prob = None if math.isnan(told.difference) else sum(one.log_probability or 0.0 for one in said)
        return {
            "text": told.output,
            "score": getattr(found, "score", None),
            "log_probability": log_prob,
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


def brief(told: Explanation) -> dict[str, Any]:
    """The output in a few words."""
    score = getattr(told.found, "score", None)
    return {"text": told.output, "score": score, "log_probability": told.log_probability}

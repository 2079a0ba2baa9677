"""One trace while the page looks at it: its manifest, its tensors slice by slice, its logits."""

import math
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ClearheadError, ModelError, SettingsError, TextError
from clearhead.explorer.architecture import architecture, device_of
from clearhead.explorer.arrays import Array, array_of, max_pool, select
from clearhead.explorer.catalogue import Entry, catalogue, pattern_of
from clearhead.explorer.distribution import SamplingFilter, distribution
from clearhead.explorer.explorable import Explorable, about, explain_options, input_of, text_ids
from clearhead.explorer.images import ImageStore, find_image
from clearhead.explorer.interventions import Edits, as_python, parse_edits
from clearhead.explorer.pending import PendingTrace
from clearhead.inspection import intervene
from clearhead.inspection.explanation import Explanation, Token, finite
from clearhead.inspection.explanation_summaries import Summaries
from clearhead.inspection.image import PatchImage
from clearhead.inspection.trace import captured_pass, first_tensors

KEPT_BYTES = 96_000_000
"""A larger trace keeps what pictures need and computes the rest on request."""
ON_REQUEST = ("scores", "masked", "queries", "keys", "values", "head_output")
FORMAT = 2
MAX_GRADIENTS = 64
"""The most predictions of which gradients are taken: each needs a backward pass."""
NODE_BYTES = 500
"""Memory of one hypothesis of a beam search, roughly."""


class UnknownTensorError(SettingsError):
    """A trace has no tensor of this name."""

    status = 404


class StoppedError(ClearheadError):
    """A pass was stopped before its end."""


@dataclass
class TraceSession:
    """An explanation and the data that the page requests; `run` captures its tensors."""

    explanation: Explanation
    about: Mapping[str, Any]
    """The map of the model."""
    interventions: Sequence[Mapping[str, Any]] = ()
    """As requested."""
    edits: Edits = field(default_factory=dict)
    """The same as Python objects."""
    python: str = ""
    image: str | None = None
    """The sample or uploaded file that the model reads."""
    baseline: Callable[[], Mapping[str, Any]] | None = None
    """Returns the output without the edits."""
    seconds: float = field(default=0.0, init=False)
    before: Mapping[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        captured = {name: self.explanation[name] for name in self.explanation.trace}
        self._tensors, self.stopped = PendingTrace(captured), False
        self.pending, self._last_put = (), time.perf_counter()
        self.model = self.explanation.model
        self.device = device_of(self.model)
        sides = self.explanation.sides
        self.catalogue = catalogue(self.model, {side: len(tokens) for side, tokens in sides.items()})

    def expect(self, entries: Sequence[Entry]) -> None:
        """Sets the tensors that `run` captures; readers wait for them from now on."""
        self.pending = [entry.name for entry in entries]
        self._tensors.expect(name for entry in entries for name in entry.names)

    def run(self, lock: AbstractContextManager[Any] | None = None) -> None:
        """Captures the expected tensors and compares with a fused pass, under `lock`; readers get errors."""
        try:
            with lock or nullcontext():
                self._run()
        except Exception as error:
            self._tensors.finish(error)
        else:
            self._tensors.finish()

    def _run(self) -> None:
        started = time.perf_counter()
        with intervene(self.model, self.edits):
            captured = captured_pass(self.model, self.explanation.run, self.pending, self._put)
        self.seconds += self._last_put - started
        if captured.logits is not None and captured.logits.isnan().any():
            raise ModelError(f"{self.name}: the logits are NaN; the weights or the precision are broken")
        self.explanation = self.explanation.with_pass(replace(captured, trace=self._tensors.trace()))
        self.before = self.baseline() if self.baseline else None

    def _put(self, name: str, tensor: Tensor) -> None:
        if self.stopped:
            raise StoppedError(f"{self.name}: the pass was stopped because the client disconnected")
        self._tensors.put(name, tensor[0].cpu())
        self._last_put = time.perf_counter()

    def finished(self, timeout: float) -> bool:
        """Whether no pass is running, after at most `timeout` seconds."""
        return self._tensors.finished(timeout)

    def wait(self) -> "TraceSession":
        """This session, once its pass has finished."""
        self._tensors.wait()
        return self

    @property
    def bytes(self) -> int:
        return self._tensors.bytes + NODE_BYTES * (len(tree.nodes) if (tree := self.explanation.tree) else 0)

    @property
    def name(self) -> str:
        """The name the model was loaded under."""
        return self.about["name"]

    def manifest(self) -> dict[str, Any]:
        """Everything but the numbers; values that need the whole pass are None until it has finished."""
        explanation = self.explanation
        return {
            "format": FORMAT,
            "id": "",
            "kind": self.about["kind"],
            "model": self.about,
            "text": explanation.text,
            "normalized": explanation.normalized,
            "to": explanation.settings.get("to"),
            "sides": {side: [one.record() for one in tokens] for side, tokens in explanation.sides.items()},
            "image": self.image,
            "images": {side: image_record(image) for side, image in explanation.images.items()},
            "output": self._output(),
            "before": self.before,
            "difference": None if math.isnan(explanation.difference) else explanation.difference,
            "interventions": list(self.interventions),
            "python": self.python,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "tensors": [entry.record() for entry in self.catalogue.values()],
            "parts": self._parts(),
        }

    def entry(self, name: str) -> tuple[Entry, list[str], tuple[str, ...]]:
        """The entry of a name, the full names of its tensors, and its axes."""
        pattern, layer = pattern_of(name)
        if pattern not in self.catalogue:
            raise UnknownTensorError(f"tensor: {name!r:.80} is not in this trace; see its manifest")
        entry = self.catalogue[pattern]
        if layer is None:
            return entry, entry.names, entry.axes
        if layer >= entry.shape[0]:
            raise UnknownTensorError(f"tensor: {name!r:.80} has layers 0 to {entry.shape[0] - 1}")
        return entry, [entry.names[layer]], entry.axes[1:]

    def holds(self, name: str, layer: int | None = None) -> bool:
        """Whether the tensors are captured or pending; otherwise `fetch` computes them."""
        return self._tensors.expects(self._names(name, layer))

    def fetch(self, name: str, layer: int | None = None) -> None:
        """Computes and keeps the tensors that are missing."""
        missing = [one for one in self._names(name, layer) if not self._tensors.expects([one])]
        if missing:
            with intervene(self.model, self.edits):
                found = first_tensors(self.model, self.explanation.run, missing)
            for one, tensor in found.items():
                self._tensors.put(one, tensor[0])

    def tensor(
        self, name: str, chosen: Mapping[str, int | None], dtype: str = "f32", pool: int | None = None
    ) -> Array:
        """A slice of a tensor: one index of each axis in `chosen`."""
        entry, _, axes = self.entry(name)
        if dtype not in entry.dtypes:
            allowed = ", ".join(entry.dtypes)
            raise SettingsError(f"dtype: {dtype!r:.20} is not available for {entry.role}; use {allowed}")
        if pool is not None and entry.role != "weights":
            raise SettingsError(f"pool: works for weights only, not for {entry.role}")
        chosen = dict(chosen)
        if "queries" not in axes and "positions" in axes:
            chosen["positions"] = chosen.pop("queries", None)
        layer = chosen.pop("layers", None)
        if layer is not None and "layers" not in axes:
            raise SettingsError(f"layer: {name} has no axis of layers; leave it out")
        found, layered = self._tensors.get(self._names(name, layer)), "layers" in axes
        # Sliced per layer, so that a small slice of a large tensor needs little memory.
        parts = [select(one, axes[layered:], chosen) for one in found]
        if pool is not None and parts[0].dim() >= 2:
            parts = [max_pool(one, pool) for one in parts]
        return array_of(torch.stack(parts) if layered and layer is None else parts[0], dtype)

    def values(self, name: str, layer: int | None = None) -> Tensor:
        """A whole tensor, stacked over the layers unless one is given."""
        found, (_, _, axes) = self._tensors.get(self._names(name, layer)), self.entry(name)
        return torch.stack(found) if "layers" in axes and layer is None else found[0]

    def logits(self, position: int, chosen: SamplingFilter) -> dict[str, Any]:
        """The distribution of the next token at one position."""
        self.check_position(position)
        logits, following = self.values("logits")[position], self.explanation.target[position].next
        return {"position": position, **distribution(self.explanation.pieces, logits, chosen, following)}

    def check_position(self, position: int, side: str | None = None) -> None:
        length = len(self.explanation.target if side is None else self.explanation.sides[side])
        if not 0 <= position < length:
            raise SettingsError(f"position: {position} is not from 0 to {length - 1}")

    def _parts(self) -> list[str]:
        """The measures that this trace supports."""
        explanation, roles = self.explanation, {entry.role for entry in self.catalogue.values()}
        predicts, found = "logits" in roles, Summaries(explanation)
        there = {
            "summaries": True,
            "logits": predicts,
            "lens": predicts and found.has_lens,
            "gradients": predicts and found.has_gradients and len(explanation.target) <= MAX_GRADIENTS,
            "beam": explanation.tree is not None,
            "contributions": predicts and "weights" in roles,
            "projection": {"embedding", "stream"} <= roles,
            "feedforward": {"embedding", "stream"} <= roles and _has_feedforward(self.model),
            "readout": {"embedding", "stream", "states"} <= roles and hasattr(self.model, "readout_weight"),
            "relevance": explanation.relevance is not None,
            "filters": found.patch_embedding is not None,
        }
        return [part for part, supported in there.items() if supported]

    def _names(self, name: str, layer: int | None) -> list[str]:
        _, names, axes = self.entry(name)
        if layer is None or "layers" not in axes:
            return names
        if not 0 <= layer < len(names):
            raise SettingsError(f"layer: {layer} is not from 0 to {len(names) - 1}")
        return [names[layer]]

    def _output(self) -> dict[str, Any]:
        explanation, found = self.explanation, self.explanation.found
        predicted = _predicted(explanation)
        names = explanation.pieces([one.next or 0 for one in predicted])
        return {
            **output_summary(explanation),
            "complete": getattr(found, "complete", True),
            "tokens": [
                {"id": one.next, "piece": piece, "log_prob": finite(one.log_prob)}
                for one, piece in zip(predicted, names, strict=True)
            ],
            "nbest": [
                {"text": one.text, "score": one.score, "log_prob": one.sum_log_prob}
                for one in getattr(found, "nbest", ())
            ],
        }


def _has_feedforward(model: Any) -> bool:
    """Whether the blocks of all stacks have feed-forward networks with two matrices."""
    blocks = [model.get_submodule(stack.path).blocks[0] for stack in model.anatomy().stacks]
    networks = [getattr(block, "feedforward", None) for block in blocks]
    return all(hasattr(one, "inner") and hasattr(one, "outer") for one in networks)


def _predicted(explanation: Explanation) -> list[Token]:
    """The positions that predict the output; the prompt of a language model is not output."""
    predicted = [one for one in explanation.target if one.next is not None]
    if len(explanation.sides) > 1:
        return predicted
    return predicted[sum(not one.generated for one in explanation.target) - 1 :]


def output_summary(explanation: Explanation) -> dict[str, Any]:
    """The output with its score and log-probability; None where no token is predicted."""
    predicted, score = _predicted(explanation), getattr(explanation.found, "score", None)
    known = predicted and not math.isnan(explanation.difference)
    log_prob = finite(sum(one.log_prob or 0.0 for one in predicted)) if known else None
    probabilities = getattr(explanation.found, "probabilities", None)
    return {
        "text": explanation.output,
        "score": score,
        "log_prob": log_prob,
        "probabilities": probabilities and dict(probabilities),
    }


def image_record(image: PatchImage) -> dict[str, Any]:
    """An image as JSON; the pixels are bytes of red, green and blue, row by row."""
    return {
        **image.record(),
        "pixels": b64encode(image.pixels.contiguous().numpy().tobytes()).decode("ascii"),
    }


def start_trace(
    model: Explorable, name: str, request: Mapping[str, Any], images: ImageStore | None = None
) -> TraceSession:
    """The trace of a request (fields as in docs/trace.md); its `run` then captures the tensors."""
    started = time.perf_counter()
    text, options = request["text"], explain_options(model, request)
    given, image = text, None
    if input_of(type(model.model)) == "image":
        image, text, given = find_image(model, request.get("image"), images or ImageStore())
    else:
        check_length(model, text)
    interventions = request.get("interventions", ())
    edits = parse_edits(model, interventions)
    with intervene(model.model, edits):
        explanation = replace(model.explain(given, names=(), **options), text=text)

    def baseline() -> Mapping[str, Any]:
        names = ["logits"] if "logits" in session.catalogue else ()
        return output_summary(model.explain(given, names=names, **options))

    session = TraceSession(
        explanation,
        architecture(model, name),
        interventions,
        edits,
        as_python(model, name, text, options, edits),
        image,
        baseline if edits else None,
    )
    entries = session.catalogue.values()
    size = sum(4 * math.prod(entry.shape) for entry in entries)
    session.expect([one for one in entries if size <= KEPT_BYTES or one.role not in ON_REQUEST])
    session.seconds = time.perf_counter() - started
    return session


def check_length(model: Explorable, text: str) -> None:
    """Refuses a text that is too long for the model."""
    tokenizer, limit = getattr(model, "tokenizer", None), about(model)["max_tokens"]
    if tokenizer is None or limit is None:
        return
    if (length := len(text_ids(model, text))) > limit:
        raise TextError(f"text: {length} tokens, but the model takes at most {limit}; shorten it")

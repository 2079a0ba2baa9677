"""From what a page asks to a trace: the text is run through the model, and enough of it kept."""

import math
import time
from collections.abc import Mapping
from typing import Any

from clearhead.errors import TextError
from clearhead.explorer.architecture import Model, architecture, most_tokens
from clearhead.explorer.catalogue import catalogue
from clearhead.explorer.interventions import as_python, call_of, edits
from clearhead.explorer.trace_session import TraceSession, brief
from clearhead.inspection import intervene
from clearhead.tasks.language.model import LanguageModel

KEPT_BYTES = 96_000_000
"""A trace that would be larger keeps what pictures need; the rest is computed again when it is asked for."""
LATER = ("scores", "masked", "queries", "keys", "values", "head_output")


def tell(model: Model, name: str, asked: Mapping[str, Any]) -> TraceSession:
    """The trace of what was asked, fields as docs/trace.md has them; its `run` brings the numbers."""
    started = time.perf_counter()
    text, arguments = asked["text"], explain_arguments(model, asked)
    kept = kept_names(model, text, asked.get("tokens", 0))
    changes = edits(model, asked.get("interventions", ()))
    with intervene(model.model, changes):
        explanation = model.explain(text, names=(), **arguments)

    def earlier() -> Mapping[str, Any]:
        return brief(model.explain(text, names=["logits"], **arguments))

    return TraceSession(
        explanation,
        architecture(model, name),
        asked,
        changes,
        python=as_python(name, call_of(model, text, arguments), changes),
        awaited=kept,
        earlier=earlier if changes else None,
        seconds=time.perf_counter() - started,
    )


def explain_arguments(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What `explain` is told beside the text."""
    if isinstance(model, LanguageModel):
        drawing = ("tokens", "temperature", "top_k", "top_p", "seed") if asked.get("tokens") else ()
        return {name: asked[name] for name in drawing if name in asked}
    options = {name: asked[name] for name in ("target", "beam", "prefix") if asked.get(name)}
    if asked.get("forced"):
        options["prefix"] = asked["forced"]
    return {"to": asked.get("to") or model.directions[0].target, **options}


def kept_names(model: Model, text: str, tokens: int = 0) -> list[str]:
    """The tensors that are kept of a pass over a text; a text that is too long is refused."""
    length, most = len(model.tokenizer.encode(text)), most_tokens(model)
    if length > most:
        raise TextError(f"text: {length} tokens, and the model takes {most}: shorten it")
    positions = min(length + tokens + 2, model.model.config.max_positions)
    sides = ("text",) if isinstance(model, LanguageModel) else ("source", "target")
    entries = catalogue(model.model, dict.fromkeys(sides, positions)).values()
    whole = sum(4 * math.prod(entry.shape) for entry in entries)
    kept = [entry for entry in entries if whole <= KEPT_BYTES or entry.role not in LATER]
    return [name for entry in kept for name in entry.names]

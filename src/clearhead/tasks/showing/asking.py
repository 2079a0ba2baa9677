"""From what a page asks to a trace: the text is run through the model, and enough of it kept."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from clearhead.errors import TextError
from clearhead.inspection import intervene
from clearhead.models import GPT
from clearhead.tasks.explaining import Explanation, look_at_pair, look_at_text
from clearhead.tasks.language import LanguageModel
from clearhead.tasks.showing.architecture import Model, architecture, most_tokens
from clearhead.tasks.showing.catalogue import catalogue
from clearhead.tasks.showing.changes import Changes, as_python, call_of, edits
from clearhead.tasks.showing.told import Look, Told, brief

KEPT_BYTES = 96_000_000
"""A trace that would be larger keeps what pictures need; the rest is computed again when it is asked for."""
LATER = ("scores", "masked", "queries", "keys", "values", "mixed")


def tell(model: Model, name: str, asked: Mapping[str, Any]) -> Told:
    """The trace of what was asked: fields as docs/trace.md has them."""
    started = time.perf_counter()
    text, arguments = asked["text"], explain_arguments(model, asked)
    names = kept_names(model, text, asked.get("tokens", 0))
    changes = edits(model, asked.get("interventions", ()))
    before = brief(model.explain(text, names=["logits"], **arguments)) if changes else None
    with intervene(model.model, changes):
        explanation = model.explain(text, names=names, **arguments)
    python = as_python(name, call_of(model, text, arguments), changes)
    look = look_again(explanation, changes)
    about = architecture(model, name)
    return Told(explanation, about, look, asked, changes, python, before, time.perf_counter() - started)


def explain_arguments(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What `explain` is told beside the text."""
    if isinstance(model, LanguageModel):
        drawing = ("tokens", "temperature", "top_k", "top_p", "seed") if asked.get("tokens") else ()
        return {name: asked[name] for name in drawing if name in asked}
    wishes = {name: asked[name] for name in ("target", "beam", "prefix") if asked.get(name)}
    if asked.get("forced"):
        wishes["prefix"] = asked["forced"]
    return {"to": asked.get("to") or model.directions[0].target, **wishes}


def kept_names(model: Model, text: str, tokens: int = 0) -> list[str]:
    """The tensors that are kept from the first pass over a text; a text that is too long is refused."""
    length, most = len(model.tokenizer.encode(text)), most_tokens(model)
    if length > most:
        raise TextError(f"text: {length} tokens, and the model takes {most}: shorten it")
    places = min(length + tokens + 2, model.model.config.longest)
    sides = ("text",) if isinstance(model, LanguageModel) else ("source", "target")
    entries = catalogue(model.model, dict.fromkeys(sides, places)).values()
    whole = sum(4 * math.prod(entry.shape) for entry in entries)
    return [entry.name for entry in entries if whole <= KEPT_BYTES or entry.role not in LATER]


def look_again(told: Explanation, changes: Changes) -> Look:
    """The pass of an explanation once more, for other tensors of it."""

    def look(names: Sequence[str]) -> Mapping[str, Tensor]:
        target = [token.id for token in told.target]
        with intervene(told.model, changes):
            if isinstance(told.model, GPT):
                seen = look_at_text(told.model, target, names)
            else:
                source = [token.id for token in told.source][:-1]
                seen = look_at_pair(told.model, source, target[1:], names)
        return {name: tensor[0] for name, tensor in seen.trace.items()}

    return look

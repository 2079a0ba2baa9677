"""From what a page asks to a trace: the text is run through the model, and enough of it kept."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from clearhead.errors import TextError
from clearhead.models import GPT
from clearhead.tasks.explaining import Explanation, look_at_pair, look_at_text
from clearhead.tasks.language import LanguageModel
from clearhead.tasks.showing.architecture import Model, most_tokens
from clearhead.tasks.showing.catalogue import catalogue
from clearhead.tasks.showing.told import Look, Told
from clearhead.tasks.translation import TranslationModel

KEPT_BYTES = 96_000_000
"""A trace that would be larger keeps what pictures need; the rest is computed again when it is asked for."""
LATER = ("scores", "masked", "queries", "keys", "values", "mixed")


def tell(model: Model, name: str, asked: Mapping[str, Any]) -> Told:
    """The trace of what was asked: fields as docs/trace.md has them."""
    started = time.perf_counter()
    text = asked["text"]
    names = kept_names(model, text, asked.get("tokens", 0))
    explanation = explain(model, asked, names)
    return Told(
        model,
        name,
        explanation,
        look_again(explanation),
        asked=asked,
        seconds=time.perf_counter() - started,
    )


def explain(model: Model, asked: Mapping[str, Any], names: Sequence[str]) -> Explanation:
    """The explanation that was asked for, with these tensors."""
    if isinstance(model, LanguageModel):
        drawing = {name: asked[name] for name in ("temperature", "top_k", "top_p", "seed") if name in asked}
        return model.explain(asked["text"], tokens=asked.get("tokens", 0), names=names, **drawing)
    wishes = {name: asked[name] for name in ("beam", "prefix") if asked.get(name)}
    return model.explain(
        asked["text"], to=_language(model, asked), target=asked.get("target"), names=names, **wishes
    )


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


def look_again(told: Explanation) -> Look:
    """The pass of an explanation once more, for other tensors of it."""

    def look(names: Sequence[str]) -> Mapping[str, Tensor]:
        target = [token.id for token in told.target]
        if isinstance(told.model, GPT):
            seen = look_at_text(told.model, target, names)
        else:
            seen = look_at_pair(told.model, [token.id for token in told.source][:-1], target[1:], names)
        return {name: tensor[0] for name, tensor in seen.trace.items()}

    return look


def _language(model: TranslationModel, asked: Mapping[str, Any]) -> str | None:
    """The language asked for, or the first of those that the model writes."""
    return asked.get("to") or model.directions[0].target

"""Interventions from the page: as edits, and as the Python that does the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.errors import SettingsError
from clearhead.explorer.explorable import Explorable, about, tokenizer_of
from clearhead.inspection.edits import Edit, Keep, Move, Mute, Row, Swap

Edits = dict[str, list[Edit]]
"""Edits by the site that they change."""
DEFAULTS = {
    "target": None,
    "prefix": "",
    "tokens": 0,
    "temperature": 0.0,
    "top_k": None,
    "top_p": 1.0,
    "seed": 0,
}


def parse_edits(model: Explorable, interventions: Sequence[Mapping[str, Any]]) -> Edits:
    """The edits of a request."""
    edits: Edits = {}
    for number, given in enumerate(interventions):
        site, edit = _edit(model, given, f"interventions.{number}")
        edits.setdefault(site, []).append(edit)
    return edits


def as_python(name: str, call: str, edits: Edits) -> str:
    """Code that gives the same explanation."""
    imports, load = ["import clearhead"], f"model = clearhead.load({name!r})"
    explain = f"explanation = model.{call}"
    if not edits:
        return "\n".join([*imports, "", load, explain, "print(explanation.output)", ""])
    used = sorted({type(edit).__name__ for given in edits.values() for edit in given})
    imports.append(f"from clearhead.inspection.edits import {', '.join(used)}")
    rows = [f"    {site!r}: {given[0] if len(given) == 1 else given!r}," for site, given in edits.items()]
    context = [
        "with clearhead.intervene(model.model, edits):",
        f"    {explain}",
        "print(explanation.output)",
        "",
    ]
    return "\n".join([*imports, "", load, "edits = {", *rows, "}", *context])


def explain_call(model: Explorable, text: str, options: Mapping[str, Any]) -> str:
    """The call of `explain`, without options that have their default value."""
    defaults = dict(DEFAULTS)
    if len({one["target"] for one in about(model)["languages"]}) == 1:
        defaults["to"] = options.get("to")
    given = [f"{name}={value!r}" for name, value in options.items() if (name, value) not in defaults.items()]
    return f"explain({', '.join([repr(text), *given])})"


def _edit(model: Explorable, given: Mapping[str, Any], field: str) -> tuple[str, Edit]:
    match given["kind"]:
        case "mute":
            return f"{_path(model, given['attention'], field)}.head_output", Mute(tuple(given["heads"]))
        case "keep":
            return f"{_path(model, given['attention'], field)}.head_output", Keep(tuple(given["heads"]))
        case "row":
            row = Row(given["query"], tuple(given["weights"]), given["head"])
            return f"{_path(model, given['attention'], field)}.weights", row
        case "embedding":
            swap = Swap({given["position"]: _token(model, given, field)})
            return f"{_embedding(model, given['side'], field)}.token_embeddings", swap
        case _:
            return _position_ids(model, given["side"], field), Move({given["position"]: given["to"]})


def _path(model: Explorable, path: str, field: str) -> str:
    """The path of an attention in one layer, or with * in all."""
    anatomy = model.model.anatomy()
    known = [part.path("*") for part in anatomy.attentions]
    if path in known or any(path in anatomy.layers(part) for part in anatomy.attentions):
        return path
    raise SettingsError(f"{field}: there is no attention {path!r:.80}; the model has {', '.join(known)}")


def _embedding(model: Explorable, side: str, field: str) -> str:
    embeddings = model.model.anatomy().embeddings
    if side not in embeddings:
        raise SettingsError(f"{field}: the model has no side {side}, only {', '.join(embeddings)}")
    return embeddings[side]


def _position_ids(model: Explorable, side: str, field: str) -> str:
    """The site of a side's position ids: at its embedding, or at the stack for rotary positions."""
    embedding, kind = _embedding(model, side, field), getattr(model.model.config, "position", "none")
    if kind in ("none", "alibi"):
        raise SettingsError(f"{field}: positions of kind {kind} have no position ids to change")
    if kind == "rotary":
        embedding = next(stack.path for stack in model.model.anatomy().stacks if stack.side == side)
    return f"{embedding}.position_ids"


def _token(model: Explorable, given: Mapping[str, Any], field: str) -> int:
    if given.get("id") is not None:
        return given["id"]
    tokenizer, token = tokenizer_of(model), given.get("token") or ""
    if (number := tokenizer.id(token)) is not None:
        return number
    # A person types a word; the vocabulary usually has it with a leading space.
    ids = tokenizer.encode(token)
    if len(ids) != 1:
        raise SettingsError(f"{field}: {token!r:.40} is not one token of the vocabulary; choose another")
    return ids[0]

"""Interventions from the page: as edits, and as the Python that does the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.errors import SettingsError
from clearhead.explorer.explorable import Explorable, about, tokenizer_of
from clearhead.inspection import sites
from clearhead.inspection.edits import Edit, HidePatches, KeepOnly, Mute, SetPosition, SetRow, Swap

Edits = dict[str, list[Edit]]
"""Edits by the site that they change."""


def parse_edits(model: Explorable, interventions: Sequence[Mapping[str, Any]]) -> Edits:
    """The edits of a request."""
    edits: Edits = {}
    for number, given in enumerate(interventions):
        site, edit = _edit(model, given, f"interventions.{number}")
        edits.setdefault(site, []).append(edit)
    return edits


def as_python(model: Explorable, name: str, text: str, options: Mapping[str, Any], edits: Edits) -> str:
    """Code that gives the same explanation."""
    given = {key: value for key, value in options.items() if value is not None and value != 0}
    if len({one["target"] for one in about(model)["languages"]}) == 1:
        given.pop("to", None)
    arguments = ", ".join([repr(text), *(f"{key}={value!r}" for key, value in given.items())])
    explain = f"explanation = model.explain({arguments})"
    used = {type(edit) for listed in edits.values() for edit in listed}
    imports = sorted(f"from {one.__module__} import {one.__name__}" for one in used)
    lines = ["import clearhead", *imports, "", f"model = clearhead.load({name!r})"]
    if edits:
        rows = [f"    {site!r}: {one[0] if len(one) == 1 else one!r}," for site, one in edits.items()]
        lines += ["edits = {", *rows, "}", "with clearhead.intervene(model.model, edits):"]
        explain = f"    {explain}"
    return "\n".join([*lines, explain, "print(explanation.output)", ""])


def _edit(model: Explorable, given: Mapping[str, Any], field: str) -> tuple[str, Edit]:
    match given["kind"]:
        case "mute" | "keep" as kind:
            edit = (Mute if kind == "mute" else KeepOnly)(tuple(given["heads"]))
            return f"{_path(model, given['attention'], field)}.head_output", edit
        case "row":
            row = SetRow(given["query"], tuple(given["weights"]), given["head"])
            return f"{_path(model, given['attention'], field)}.weights", row
        case "embedding":
            swap = Swap({given["position"]: _token(model, given, field)})
            return f"{_embedding(model, given['side'], field)}.token_embeddings", swap
        case "hide":
            patches = tuple((row, column) for row, column in given["patches"])
            return _pixels(model, given["side"], field), HidePatches(patches)
        case _:
            return _position_ids(model, given["side"], field), SetPosition({given["position"]: given["to"]})


def _path(model: Explorable, path: str, field: str) -> str:
    """The path of an attention in one layer, or with * in all."""
    anatomy = model.model.anatomy()
    known = [part.path("*") for part in anatomy.attentions]
    if path in known or any(path in anatomy.layers(part) for part in anatomy.attentions):
        return path
    there = ", ".join(known) or "none"
    raise SettingsError(f"{field}: there is no attention {path!r:.80}; the model has {there}")


def _embedding(model: Explorable, side: str, field: str) -> str:
    embeddings = model.model.anatomy().embeddings
    if side not in embeddings:
        raise SettingsError(f"{field}: the model has no side {side}, only {', '.join(embeddings) or 'none'}")
    return embeddings[side]


def _pixels(model: Explorable, side: str, field: str) -> str:
    site = f"{_embedding(model, side, field)}.pixels"
    if site not in sites(model.model):
        raise SettingsError(f"{field}: {side} has no patches to hide")
    return site


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

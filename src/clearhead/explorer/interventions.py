"""Interventions as a page asks for them: as edits, and as the Python that makes the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.errors import SettingsError
from clearhead.explorer.architecture import Model, attentions, stacks
from clearhead.inspection.edits import Edit, KeepOnly, Mute, SetPosition, SetRow, Swap
from clearhead.tasks.translation.model import TranslationModel

Changes = dict[str, list[Edit]]


def edits(model: Model, interventions: Sequence[Mapping[str, Any]]) -> Changes:
    """The edits by the names of what they change."""
    changes: Changes = {}
    for number, asked in enumerate(interventions):
        name, edit = _edit(model, asked, f"interventions.{number}")
        changes.setdefault(name, []).append(edit)
    return changes


def as_python(name: str, call: str, changes: Changes) -> str:
    """Code that gives the same explanation."""
    head = ["import clearhead"]
    load = f"model = clearhead.load({name!r})"
    explain = f"explanation = model.{call}"
    if not changes:
        return "\n".join([*head, "", load, explain, "print(explanation.output)", ""])
    used = sorted({type(edit).__name__ for given in changes.values() for edit in given})
    head.append(f"from clearhead.inspection.edits import {', '.join(used)}")
    rows = [f"    {site!r}: {_listed(given)}," for site, given in changes.items()]
    within = [
        "with clearhead.intervene(model.model, changes):",
        f"    {explain}",
        "print(explanation.output)",
        "",
    ]
    return "\n".join([*head, "", load, "changes = {", *rows, "}", *within])


def call_of(model: Model, text: str, arguments: Mapping[str, Any]) -> str:
    """The call of `explain`, with only what is not as usual."""
    usual = {"to": None, "target": None, "prefix": "", "tokens": 0, "temperature": 0.0, "top_k": None}
    usual |= {"top_p": 1.0, "seed": 0, "beam": None}
    if isinstance(model, TranslationModel) and len({one.target for one in model.directions}) == 1:
        usual["to"] = arguments.get("to")
    told = [f"{name}={value!r}" for name, value in arguments.items() if value != usual.get(name)]
    return f"explain({', '.join([repr(text), *told])})"


def _listed(given: Sequence[Edit]) -> str:
    return repr(given[0]) if len(given) == 1 else f"[{', '.join(map(repr, given))}]"


def _edit(model: Model, asked: Mapping[str, Any], field: str) -> tuple[str, Edit]:
    match asked["kind"]:
        case "mute":
            return f"{_path(model, asked['attention'], field)}.head_output", Mute(tuple(asked["heads"]))
        case "keep":
            return f"{_path(model, asked['attention'], field)}.head_output", KeepOnly(tuple(asked["heads"]))
        case "row":
            row = SetRow(asked["query"], tuple(asked["weights"]), asked["head"])
            return f"{_path(model, asked['attention'], field)}.weights", row
        case "embedding":
            number = _token(model, asked, field)
            return f"{_embedding(model, asked['side'], field)}.token_embeddings", Swap(
                {asked["place"]: number}
            )
        case _:
            return _places(model, asked["side"], field), SetPosition({asked["place"]: asked["to"]})


def _path(model: Model, path: str, field: str) -> str:
    """The path of an attention, in one layer or with * in all."""
    for one in attentions(model.model):
        paths = [one["path"], *(one["path"].replace("*", str(layer)) for layer in range(one["layers"]))]
        if path in paths:
            return path
    known = ", ".join(one["path"] for one in attentions(model.model))
    raise SettingsError(f"{field}: there is no attention {path!r:.80}; those there are: {known}")


def _embedding(model: Model, side: str, field: str) -> str:
    sides = [stack["side"] for stack in stacks(model.model)]
    if side not in sides:
        raise SettingsError(f"{field}: the model has no side {side}, only {', '.join(sides)}")
    return "embedding" if side == "text" else f"{side}_embedding"


def _places(model: Model, side: str, field: str) -> str:
    """Where the places of a side are told: at its embedding, or to a stack that turns by them."""
    embedding, position = _embedding(model, side, field), model.model.config.position
    if position in ("none", "alibi"):
        raise SettingsError(f"{field}: positions of kind {position} have no places that could change")
    if position == "rotary":
        return next(f"{stack['name']}.position_ids" for stack in stacks(model.model) if stack["side"] == side)
    return f"{embedding}.position_ids"


def _token(model: Model, asked: Mapping[str, Any], field: str) -> int:
    if asked.get("id") is not None:
        return asked["id"]
    token = asked.get("token") or ""
    number = model.tokenizer.id(token)
    if number is None:
        # What a person writes is a word, and mostly the vocabulary has it with its blank.
        ids = model.tokenizer.encode(token)
        number = ids[0] if len(ids) == 1 else None
    if number is None:
        raise SettingsError(f"{field}: {token!r:.40} is not one token of the vocabulary; name another")
    return number

"""The architectures of other libraries: which one a folder has, and which one represents a model of ours."""

import json
from collections.abc import Mapping
from typing import Any

from clearhead.errors import ModelError
from clearhead.interop.architecture import Architecture, flat_settings
from clearhead.interop.encoders import ENCODERS
from clearhead.interop.gpts import GPTS
from clearhead.interop.translators import TRANSLATORS
from clearhead.interop.vits import VITS

ARCHITECTURES: tuple[Architecture, ...] = (*GPTS, *ENCODERS, *VITS, *TRANSLATORS)
# A class whose head is that of another and one more.
LARGER_CLASSES = {"BertForPreTraining": "BertForMaskedLM"}
# Settings that do not change what a trained model computes, or that both libraries default alike.
IRRELEVANT = ("init", "norm_epsilon", "dropout", "attention.dropout", "head.dropout", "readout_bias")


def architecture_of(settings: Mapping[str, Any]) -> Architecture:
    """The architecture that a config.json names."""
    model_type, given = settings.get("model_type"), settings.get("architectures")
    if model_type is None and "architecture" in settings:
        model_type = "timm"
    same_type = [one for one in ARCHITECTURES if one.model_type == model_type]
    if not same_type:
        known = dict.fromkeys(one.model_type for one in ARCHITECTURES)
        raise ModelError(f"model_type: {model_type!r} is not one of {', '.join(known)}")
    name = str(given[0]) if isinstance(given, list) and given else None
    class_name = LARGER_CLASSES.get(name or "", name)
    found = [one for one in same_type if len(same_type) == 1 or one.class_name == class_name]
    if not found:
        known = (one.class_name for one in same_type)
        raise ModelError(f"architectures: {name!r} is not one of {', '.join(known)}")
    return found[0]


def architecture_for(config: Any, model_type: str | None = None) -> Architecture:
    """The architecture that represents a model exactly; of several, the one with this model_type."""
    rows = [one for one in ARCHITECTURES if one.write_settings and isinstance(config, one.model.Config)]
    if not rows:
        raise ModelError(f"model.kind: Hugging Face has no architecture for a {config.kind}")
    rows.sort(key=lambda one: one.model_type != model_type)
    wanted, closest = flat_settings(config), {row.class_name: _closest(config, row) for row in rows}
    row = min(rows, key=lambda one: len(_differing(wanted, closest[one.class_name])))
    found = closest[row.class_name]
    if differing := _differing(wanted, found):
        first, options = differing[0], dict.fromkeys(_training_option(name, found) for name in differing)
        raise ModelError(
            f"model.{first}: {wanted[first]!r} cannot be exported: the closest architecture of Hugging Face, "
            f"{row.model_type}, has {found.get(first)!r}; train a model {' and '.join(options)}"
        )
    return row


def _closest(config: Any, row: Architecture) -> dict[str, Any]:
    """The settings of the closest model that an architecture can represent; empty if it has none."""
    assert row.write_settings is not None
    try:
        return flat_settings(type(config).model_validate(row.read_settings(row.write_settings(config))))
    except ModelError:
        return {}


def _differing(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    return [name for name in wanted if name not in IRRELEVANT and wanted[name] != found.get(name)]


def _training_option(name: str, found: Mapping[str, Any]) -> str:
    group, dot, _ = name.partition(".")
    if dot and f"{group}.kind" in found:
        # A group of another kind is given as a whole.
        inner = {key: value for key, value in found.items() if key.startswith(f"{group}.")}
        shown = ", ".join(
            f"{key.partition('.')[2]} = {json.dumps(value)}"
            for key, value in inner.items()
            if key not in IRRELEVANT and value is not None
        )
        return f"with --set model.{group}='{{{shown}}}'"
    value = found.get(name)
    if value is None:
        return f"without model.{name}"
    return f"with --set model.{name}={str(value).lower() if isinstance(value, bool) else value}"

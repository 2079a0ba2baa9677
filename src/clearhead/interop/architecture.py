"""An architecture of another library that one of our models can represent."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from clearhead.checkpoint import CARD, Checkpoint
from clearhead.errors import ModelError
from clearhead.files import write_text
from clearhead.interop.weight_map import Tensors, WeightMap

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
}
PARAMETERS = ("weight", "bias")
Files = dict[str, Any]
"""Files by name: objects to write as JSON."""


@dataclass(frozen=True)
class Architecture:
    """One class of the transformers library."""

    model_type: str
    class_name: str
    task: str
    """The task that an imported model is for."""
    model: Any
    """Our class, one of MODELS."""
    read_settings: Callable[[Mapping[str, Any]], dict[str, Any]]
    """From config.json to the fields of the model's settings."""
    write_settings: Callable[[Any], dict[str, Any]] | None
    """The way back; None if models are only imported."""
    weights: WeightMap
    read_processor: Callable[[Path, Mapping[str, Any]], Any]
    """The processor in a folder with this config.json."""
    write_processor: Callable[[Any, Any], tuple[dict[str, Any], Files]] | None
    """From a processor and the model's settings: the part of config.json about it, and its files."""
    read_tensors: Callable[[Path, Mapping[str, Any], Mapping[str, Tensor]], Mapping[str, Tensor]] = (
        lambda folder, settings, tensors: tensors
    )
    """From the tensors in a folder to those that `weights` names, with a row for each id of the processor."""
    write_tensors: Callable[[Any, Mapping[str, Tensor]], Mapping[str, Tensor]] = lambda config, tensors: (
        tensors
    )
    """From the settings of a model and the tensors that `weights` names to those that a folder must hold."""
    read_task: Callable[[Path, Mapping[str, Any]], dict[str, Any]] = lambda folder, settings: {}
    """The settings of the task in a folder."""
    write_task: Callable[[Checkpoint], tuple[dict[str, Any], Files]] = lambda checkpoint: ({}, {})
    """The reverse: the part of config.json about the task, and its files."""


def layers(*pairs: tuple[str, str | tuple[str, ...]]) -> dict[str, Tensors]:
    """The tensors of the weights and biases of layers, given by our path and their names."""
    return {
        f"{path}.{kind}": Tensors(
            tuple(f"{name}.{kind}" for name in ((names,) if isinstance(names, str) else names))
        )
        for path, names in pairs
        for kind in PARAMETERS
    }


def class_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes; without any, those of the library."""
    names = settings.get("id2label") or {str(number): f"LABEL_{number}" for number in range(2)}
    try:
        found = tuple(str(names[str(number)]) for number in range(len(names)))
    except (KeyError, TypeError):
        raise ModelError("id2label: does not name the classes 0, 1, 2 …; fix the file") from None
    if len({*found}) < max(len(found), 2):
        raise ModelError(f"id2label: {', '.join(found)} are not two or more distinct labels; fix the file")
    return found


def label_settings(labels: Sequence[str]) -> dict[str, Any]:
    """The part of config.json that names the classes; the way back of `class_names`."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def require(settings: Mapping[str, Any], supported: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises ModelError for a setting that is there and has another value than these."""
    for name, values in supported.items():
        if name in settings and settings[name] not in values:
            expected = " or ".join(map(repr, values))
            raise ModelError(f"{name}: {settings[name]!r} is not supported; expected {expected}")


def activation_name(activation: str, default: str) -> str:
    """The library's name of an activation; the default if it has none."""
    return {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}.get(activation, default)


def vocabulary_size(settings: Mapping[str, Any]) -> int:
    """The number of tokens that a model has embeddings for."""
    size = settings.get("vocab_size")
    if not isinstance(size, int) or size < 1:
        raise ModelError(f"vocab_size: {size!r} is not a number of tokens")
    return size


def flat_settings(config: Any) -> dict[str, Any]:
    """All settings by path, with derived defaults filled in."""
    values = config.model_dump()
    attention = values["attention"]
    attention |= {"kv_heads": attention["kv_heads"] or attention["heads"], "head_size": config.head_size}
    nested = {name: value for name, value in values.items() if isinstance(value, dict)}
    inner = {f"{name}.{key}": value for name, group in nested.items() for key, value in group.items()}
    return {name: value for name, value in values.items() if name not in nested} | inner


def write_files(folder: Path, files: Files, original: Path) -> None:
    """Writes objects as JSON, and the card of the original with its licence, to a folder that may be new."""
    folder.mkdir(parents=True, exist_ok=True)
    if (original / CARD).is_file():
        shutil.copyfile(original / CARD, folder / CARD)
    for name, content in files.items():
        write_text(folder / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

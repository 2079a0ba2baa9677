"""Imports and exports Hugging Face folders: settings, weights and processor."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.accel.initialization import build_for_loading
from clearhead.checkpoint import (
    CARD,
    SETTINGS,
    WEIGHTS,
    check_not_exported,
    check_sizes,
    load_checkpoint,
    save_weights,
    set_weights,
    unreadable,
    weights,
)
from clearhead.config import problems
from clearhead.errors import ModelError
from clearhead.files import atomic_path, check_new_folder, write_text
from clearhead.interop.architecture import Architecture, write_files
from clearhead.interop.architectures import architecture_for, architecture_of
from clearhead.text.huggingface import read_json

CONFIG, INDEX, SHARDS = "config.json", "model.safetensors.index.json", "model-*.safetensors"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
CARD_TEXT = """# {name}

A {class_name}, imported from a Hugging Face folder. The licence of the original model applies.

    clearhead {command}
"""
COMMANDS = {
    "translation": 'translate --model {name}{to} "A dog runs."',
    "language": 'generate --model {name} "Once upon a time"',
    "masked": 'fill --model {name} "The [MASK] drinks milk."',
    "classification": 'classify --model {name} "A wonderful film."',
    "question_answering": 'answer --model {name} --context FILE "Who was it?"',
    "image_classification": "classify --model {name} IMAGE",
}
"""A command for the models of each task."""


def import_model(folder: Path, out: Path) -> Any:
    """Convert a Hugging Face folder to a model folder; return the model."""
    check_new_folder(out)
    settings = _read_settings(folder)
    with _located(folder / CONFIG):
        architecture = architecture_of(settings)
        with _types_checked(architecture):
            config = _config(architecture, settings)
            processor = architecture.read_processor(folder, settings)
            about_task = architecture.read_task(folder, settings)
        tensors = _read_tensors(folder)
        tensors = architecture.read_tensors(folder, settings, tensors)
    check_sizes(config, processor, [tensor.shape for tensor in tensors.values()], str(folder / CONFIG))
    model = build_for_loading(lambda: architecture.model.build(config, processor))
    location = str(folder / WEIGHTS)
    set_weights(model, architecture.weights.from_huggingface(model, tensors, location), location)
    out.mkdir(parents=True, exist_ok=True)
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    saved = {
        "kind": architecture.task,
        "model": config.model_dump(exclude_none=True),
        "origin": {"library": "huggingface", "family": architecture.model_type, "precision": dtype},
        **about_task,
    }
    write_text(out / SETTINGS, tomli_w.dumps(saved))
    command = COMMANDS[architecture.task].format(name=out.name, to=_target(about_task))
    about = CARD_TEXT.format(name=out.name, class_name=architecture.class_name, command=command)
    write_text(out / CARD, about)
    processor.save(out / processor.FILE)
    # Weights last: they make a folder a model.
    save_weights(weights(model), out / WEIGHTS)
    return model


def export_model(folder: Path, out: Path) -> str:
    """Convert a model folder to a Hugging Face folder; return its model_type."""
    check_new_folder(out)
    checkpoint = load_checkpoint(folder)
    model: Any = checkpoint.model
    origin = checkpoint.settings.get("origin")
    origin = origin if isinstance(origin, dict) else {}
    with _located(folder / SETTINGS):
        architecture = architecture_for(model.config, origin.get("family"))
    precision = origin.get("precision")
    dtype = precision if precision in DTYPES else "float32"
    assert architecture.write_settings is not None
    assert architecture.write_processor is not None
    described, files = architecture.write_processor(checkpoint.processor, model.config)
    about_task, task_files = architecture.write_task(checkpoint)
    settings = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "dtype": dtype,
        **described,
        **architecture.write_settings(model.config),
        **about_task,
    }
    write_files(out, {CONFIG: settings, **files, **task_files}, folder)
    tensors = architecture.write_tensors(model.config, architecture.weights.to_huggingface(model)).items()
    with atomic_path(out / WEIGHTS) as temporary:
        save_file({name: tensor.to(DTYPES[dtype]) for name, tensor in tensors}, temporary, {"format": "pt"})
    return architecture.model_type


def _target(about_task: Mapping[str, Any]) -> str:
    """The option that chooses a target language, if a translator writes several."""
    targets = [corpus["target"] for corpus in about_task.get("data", {}).get("corpora", ())]
    return f" --to {targets[0]}" if len({*targets}) > 1 else ""


def _read_settings(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; name one with config.json and model.safetensors")
    check_not_exported(folder)
    if not (folder / CONFIG).is_file() and (folder / SETTINGS).is_file():
        raise ModelError(f"{folder}: already a clearhead model; use it as it is")
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder}: not a Hugging Face model, {CONFIG} is missing")
    return read_json(folder / CONFIG)


def _config(architecture: Architecture, settings: dict[str, Any]) -> Any:
    kind = architecture.model.Config
    try:
        return kind.model_validate(architecture.read_settings(settings))
    except ValidationError as error:
        raise ModelError(next(iter(problems(kind, error)))) from None


@contextmanager
def _types_checked(architecture: Architecture) -> Iterator[None]:
    """Reports a value of the wrong type in a file of another library."""
    try:
        yield
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"a value has the wrong type for {architecture.model_type} ({error}); copy the file again"
        ) from None


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors, from one file or several shards."""
    paths = [folder / WEIGHTS] if (folder / WEIGHTS).is_file() else sorted(folder.glob(SHARDS))
    if (folder / INDEX).is_file():
        files = read_json(folder / INDEX).get("weight_map")
        if not isinstance(files, dict):
            raise ModelError(
                f"{folder / INDEX}: weight_map: does not map tensors to files; copy the file again"
            )
        if missing := sorted(set(files.values()) - {path.name for path in paths}):
            raise ModelError(f"{folder}: {missing[0]} is missing; copy the folder again")
    if not paths:
        raise ModelError(
            f"{folder}: {WEIGHTS} is missing; convert pytorch_model.bin to it (loading a .bin can run code)"
        )
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            tensors |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise unreadable(path, error) from None
    return tensors


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Prefix errors with the file they are about, unless they name another of the folder."""
    try:
        yield
    except ModelError as error:
        if str(error).startswith(str(path.parent)):
            raise
        raise ModelError(f"{path}: {error}") from None

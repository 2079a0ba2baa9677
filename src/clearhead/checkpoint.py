"""A model's folder: resolved settings, processor, weights and card. Loading one never runs code from it."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from shlex import quote
from typing import Any

import tomli_w
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from clearhead.accel.initialization import build_for_loading
from clearhead.accel.quantization import SCALES, dequantize
from clearhead.config import read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.files import atomic_path, check_new_folder, write_text
from clearhead.models import MODELS, build, read_config
from clearhead.retired import is_first_edition

log = logging.getLogger(__name__)
SETTINGS, WEIGHTS, CARD = "config.toml", "model.safetensors", "README.md"
# The settings file of Hugging Face's transformers.
HUGGINGFACE_SETTINGS = "config.json"
# What only these libraries can run, by a file of such a folder.
EXPORTS = {"model.bin": "a CTranslate2 model", "decoder.onnx": "an ONNX model"}
ORIGIN = "clearhead_model"
"""The entry of an export's config.json that names the exported model."""
# This many numbers fit into memory anywhere; a smaller excess is reported as a wrong shape.
SPARE = 2**26


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to use a model."""

    model: nn.Module
    processor: Any
    """What turns raw input into the model's: its tokenizer; None where it needs none."""
    settings: Mapping[str, Any]


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """The model in a folder, ready for use; the caller's random generator is left untouched."""
    check_model_folder(folder)
    try:
        settings = read_toml(folder / SETTINGS)
        if is_first_edition(settings):
            raise ModelError(
                f"{folder}: written by an earlier edition of clearhead; "
                f"convert it: python scripts/convert.py {quote(str(folder))}"
            )
        config: Any = read_config(settings.get("model", {}), str(folder / SETTINGS))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    kind = MODELS[config.kind].Processor
    for name in ([kind.FILE] if kind else []) + [WEIGHTS]:
        _check_there(folder, name)
    processor = kind.load(folder / kind.FILE) if kind else None
    shapes, hashes = _header(folder / WEIGHTS)
    check_sizes(config, processor, shapes, str(folder / SETTINGS))
    with torch.random.fork_rng(devices=[]):
        model = build_for_loading(lambda: build(config, processor))
    load_weights(model, folder / WEIGHTS)
    # After the weights, whose error for a tokenizer of another size says more.
    if kind and hashes.get(Path(kind.FILE).stem, "") not in ("", _hash(folder / kind.FILE)):
        raise ModelError(
            f"{folder / kind.FILE}: not the file that {WEIGHTS} was trained with; "
            "the files belong to different models"
        )
    return Checkpoint(_moved(model, device, folder).eval(), processor, settings)


def _moved(model: nn.Module, device: torch.device | str, folder: Path) -> Any:
    """The model on the device, or on the CPU if the device has too little memory."""
    try:
        return model.to(device)
    except torch.OutOfMemoryError:
        log.warning("%s: too large for the memory of %s; it runs on the CPU", folder, device)
        return model.to("cpu")


def check_model_folder(folder: Path) -> None:
    """Raises ModelError for a folder without the settings of a model."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder")
    check_not_exported(folder)
    if (folder / HUGGINGFACE_SETTINGS).is_file() and not (folder / SETTINGS).is_file():
        command = f"clearhead import {quote(str(folder))} --out {quote(f'runs/{folder.resolve().name}')}"
        raise ModelError(f"{folder}: is a Hugging Face model; import it first: {command}")
    _check_there(folder, SETTINGS)


def check_not_exported(folder: Path) -> None:
    """Raises ModelError, with the original, for a folder that only another library can run."""
    if (folder / SETTINGS).is_file() or not (folder / HUGGINGFACE_SETTINGS).is_file():
        return
    for file, kind in EXPORTS.items():
        if (folder / file).is_file():
            name = _origin(folder / HUGGINGFACE_SETTINGS)
            original = f"the model that it was exported from{f', {name}' if name else ''}"
            raise ModelError(f"{folder}: is {kind}, which clearhead exports but does not run; use {original}")


def _origin(path: Path) -> str:
    """The name of the model that an export was made from; empty if it is unknown."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(settings.get(ORIGIN, "")) if isinstance(settings, dict) else ""


def save_checkpoint(
    folder: Path, model: Any, processor: Any = None, settings: Mapping[str, Any] | None = None
) -> None:
    """Writes a model that was built in Python as a folder that `load` takes.

    `settings` are those beside the model's own, such as {"kind": "language"}, the task.
    """
    check_new_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.model_dump(mode="json", exclude_none=True)
    write_text(folder / SETTINGS, tomli_w.dumps({**(settings or {}), "model": config}))
    if processor is not None:
        processor.save(folder / processor.FILE)
    # Last: a folder counts as a model once it has weights.
    save_weights(weights(model), folder / WEIGHTS)


def _check_there(folder: Path, name: str) -> None:
    if not (folder / name).is_file():
        raise ModelError(f"{folder}: no trained model here, {name} is missing")


def check_sizes(config: Any, processor: Any, shapes: Sequence[Sequence[int]], location: str) -> None:
    """Refuses settings that describe far more than weights of these shapes, before memory is allocated."""
    if not hasattr(config, "tensor_sizes"):
        return
    total = sum(map(prod, shapes))
    # The encoder of a captioner has settings of its own.
    parts, names = (config, getattr(config, "encoder", None)), ("layers", "encoder_layers", "decoder_layers")
    layers = max(getattr(part, name, 0) for part in parts for name in names)
    sizes = config.tensor_sizes(processor.size if processor else 0)
    wrong = [part for part, count in sizes.items() if count > total + SPARE]
    wrong += [f"{layers:,} layers"] if layers > len(shapes) else []
    if wrong:
        raise ModelError(
            f"{location}: describes {wrong[0]}, but the weights are {total:,} numbers in all; "
            "the files belong to different models"
        )


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name, shared ones once; the tensors in use, not copies."""
    first: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, tensor in held.items():
        first.setdefault(id(tensor), name)
    return {name: held[name].detach() for name in first.values()}


@torch.no_grad()
def set_weights(model: nn.Module, values: Mapping[str, Tensor], location: str) -> None:
    """Overwrites a model's weights with values that must fit exactly; `location` says where they are from."""
    held = weights(model)
    for name, tensor in held.items():
        if name not in values:
            raise ModelError(
                f"{location}: has no {name}; it belongs to another model than {SETTINGS} describes"
            )
        if values[name].shape != tensor.shape:
            raise ModelError(
                f"{location}: {name} is {_shown(values[name])}, but {SETTINGS} describes {_shown(tensor)}; "
                "the files belong to different models"
            )
    if extra := sorted(values.keys() - held.keys()):
        raise ModelError(f"{location}: {extra[0]} is not part of the model that {SETTINGS} describes")
    for name, tensor in held.items():
        tensor.copy_(values[name])


def save_weights(values: Mapping[str, Tensor], path: Path) -> None:
    """Writes the file atomically, with a hash of the processor beside it."""
    tensors = {name: value.cpu().contiguous() for name, value in values.items()}
    try:
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, _processor_hashes(path.parent))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: cannot be written ({reason}); free some space and try again") from None


def load_weights(model: nn.Module, path: Path) -> None:
    """Fills a model with the weights of a file that must fit it exactly; int8 weights are dequantized."""
    try:
        values = load_file(path)
    except (OSError, SafetensorError) as error:
        raise unreadable(path, error) from None
    values = dequantize(values, str(path))
    if hasattr(model, "take_weights"):
        model.take_weights(values, str(path))  # pyright: ignore[reportCallIssue]
    else:
        set_weights(model, values, str(path))


def _header(path: Path) -> tuple[list[list[int]], dict[str, str]]:
    """The shapes of the tensors in a file, without reading them, and the metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
            return shapes, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise unreadable(path, error) from None


def stored_parameters(folder: Path) -> int:
    """The number of weights of the model in a folder, without reading them; scales do not count."""
    _check_there(folder, WEIGHTS)
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        names = [name for name in file.keys() if not name.endswith(SCALES)]  # noqa: SIM118
        return sum(prod(file.get_slice(name).get_shape()) for name in names)


def unreadable(path: Path, error: Exception) -> ModelError:
    """The error for a weights file that cannot be opened or read."""
    try:
        path.open("rb").close()
    except OSError as refusal:
        # safetensors reports every file that it cannot open as missing.
        return ModelError(f"{path}: {refusal.strerror}; change its permissions, or copy it")
    return ModelError(f"{path}: truncated or not a weights file ({error}); copy it again")


def _processor_hashes(folder: Path) -> dict[str, str]:
    """The hash of each processor file beside the weights, by its name without the suffix."""
    names = {model.Processor.FILE for model in MODELS.values() if model.Processor}
    return {Path(name).stem: _hash(folder / name) for name in sorted(names) if (folder / name).exists()}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _shown(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))

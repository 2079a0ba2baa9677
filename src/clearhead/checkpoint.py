"""A model's folder: resolved settings, tokenizer, weights and card. Loading one never runs code from it."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from clearhead.config import parse_settings, read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.models import ModelConfig, build
from clearhead.text.tokenizer import Tokenizer

SETTINGS, TOKENIZER, WEIGHTS, CARD = "config.toml", "tokenizer.json", "model.safetensors", "README.md"


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to use a model."""

    model: nn.Module
    tokenizer: Tokenizer
    settings: Mapping[str, Any]


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """The model in a folder, ready for use; what is missing, cut short or foreign is named."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder")
    for name in (SETTINGS, TOKENIZER, WEIGHTS):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: no trained model here, {name} is missing")
    try:
        settings = read_toml(folder / SETTINGS)
        config = parse_settings(ModelConfig, settings.get("model", {}), place=f"{folder / SETTINGS}: model")
    except SettingsError as error:
        raise ModelError(str(error)) from None
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    model = build(config, tokenizer.size)
    load_weights(model, folder / WEIGHTS)
    _check_tokenizer(folder)
    return Checkpoint(model.to(device).eval(), tokenizer, settings)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, a shared one once."""
    return {name: value.detach() for name, value in model.named_parameters()}


def save_weights(values: Mapping[str, Tensor], path: Path) -> None:
    """Writes the file whole or not at all, with a hash of the tokenizer beside it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        tensors = {name: value.cpu().contiguous() for name, value in values.items()}
        save_file(tensors, partial, {"tokenizer": _hash(path.with_name(TOKENIZER))})
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: could not be written ({reason}); make room and try again") from None
    finally:
        partial.unlink(missing_ok=True)


def load_weights(model: nn.Module, path: Path) -> None:
    """Fills the model's parameters from a file that must fit them exactly."""
    wanted = weights(model)
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            _check_fit({name: tuple(value.shape) for name, value in wanted.items()}, found, path)
            for name, value in wanted.items():
                value.copy_(file.get_tensor(name))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cut short or not a weights file ({error}); copy it again") from None


def _check_fit(wanted: Mapping[str, tuple], found: Mapping[str, tuple], path: Path) -> None:
    for name, shape in wanted.items():
        if name not in found:
            raise ModelError(f"{path}: has no {name}; it belongs to another model than {SETTINGS} describes")
        if found[name] != shape:
            raise ModelError(
                f"{path}: {name} is {_by(found[name])}, {SETTINGS} and {TOKENIZER} ask for {_by(shape)}; "
                "the files belong to different models"
            )
    if extra := sorted(found.keys() - wanted.keys()):
        raise ModelError(f"{path}: {extra[0]} has no place in the model that {SETTINGS} describes")


def _check_tokenizer(folder: Path) -> None:
    """Refuses a tokenizer of the right size that the weights were not trained with."""
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        wanted = (file.metadata() or {}).get("tokenizer")
    if wanted and wanted != _hash(folder / TOKENIZER):
        raise ModelError(
            f"{folder / TOKENIZER}: not the tokenizer that {WEIGHTS} was trained with; "
            "the files belong to different models"
        )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _by(shape: tuple) -> str:
    return " x ".join(map(str, shape))

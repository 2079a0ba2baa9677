"""A model's folder: resolved settings, tokenizer, weights and card. Loading one never runs code from it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from clearhead.accel.initialization import build_for_loading
from clearhead.accel.quantization import dequantize
from clearhead.config import read_toml
from clearhead.errors import ModelError, SettingsError
from clearhead.files import replacing
from clearhead.layers.block import BlockConfig
from clearhead.models import build, read_config
from clearhead.text.tokenizer import Tokenizer

SETTINGS, TOKENIZER, WEIGHTS, CARD = "config.toml", "tokenizer.json", "model.safetensors", "README.md"
# That a model of Hugging Face's transformers has instead.
THEIR_SETTINGS = "config.json"
# So many numbers more than there are fit into memory anywhere: there, a wrong shape is told by its name.
SPARE = 2**26


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
    if (folder / THEIR_SETTINGS).is_file() and not (folder / SETTINGS).is_file():
        named = f"clearhead import {quote(str(folder))} --out {quote(f'runs/{folder.resolve().name}')}"
        raise ModelError(f"{folder}: is a model of Hugging Face; take it over first: {named}")
    for name in (SETTINGS, TOKENIZER, WEIGHTS):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: no trained model here, {name} is missing")
    try:
        settings = read_toml(folder / SETTINGS)
        config = read_config(settings.get("model", {}), str(folder / SETTINGS))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    check_counts(config, tokenizer.size, _shapes(folder / WEIGHTS), str(folder / SETTINGS))
    model = build_for_loading(lambda: build(config, tokenizer))
    load_weights(model, folder / WEIGHTS)
    _check_tokenizer(folder)
    return Checkpoint(model.to(device).eval(), tokenizer, settings)


def check_counts(config: BlockConfig, words: int, held: Sequence[Sequence[int]], place: str) -> None:
    """Refuses settings that ask for far more than the weights of these shapes, before any memory is taken."""
    total = sum(map(prod, held))
    layers = max(getattr(config, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))
    heads, size = config.attention.heads, config.head_size
    # What a place has: a turn of each head, a vector, or nothing of its own.
    row = {"rotary": size, "alibi": 0, "none": 0}.get(config.position, config.width)
    asked = {
        f"{words:,} tokens of width {config.width:,}": words * config.width,
        f"width {config.width:,} and hidden {config.ffn_width:,}": config.width * config.ffn_width,
        f"{heads:,} heads of size {size:,}": config.width * heads * size,
        f"places for {config.max_length:,} tokens": config.max_length * row,
    }
    wrong = [what for what, count in asked.items() if count > total + SPARE]
    wrong += [f"{layers:,} layers"] if layers > len(held) else []
    if wrong:
        raise ModelError(
            f"{place}: asks for {wrong[0]}, but there are {total:,} weights in all; "
            "the files belong to different models"
        )


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name, a shared one once; the tensors are those in use, not copies."""
    first: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, tensor in held.items():
        first.setdefault(id(tensor), name)
    return {name: held[name].detach() for name in first.values()}


@torch.no_grad()
def set_weights(model: nn.Module, values: Mapping[str, Tensor], place: str) -> None:
    """Writes values over a model's weights, which they must fit exactly; `place` is where they are from."""
    held = weights(model)
    for name, tensor in held.items():
        if name not in values:
            raise ModelError(f"{place}: has no {name}; it belongs to another model than {SETTINGS} describes")
        if values[name].shape != tensor.shape:
            raise ModelError(
                f"{place}: {name} is {_by(values[name])}, {SETTINGS} and {TOKENIZER} ask for {_by(tensor)}; "
                "the files belong to different models"
            )
    if extra := sorted(values.keys() - held.keys()):
        raise ModelError(f"{place}: {extra[0]} has no place in the model that {SETTINGS} describes")
    for name, tensor in held.items():
        tensor.copy_(values[name])


def save_weights(values: Mapping[str, Tensor], path: Path) -> None:
    """Writes the file whole or not at all, with a hash of the tokenizer beside it."""
    tensors = {name: value.cpu().contiguous() for name, value in values.items()}
    try:
        with replacing(path) as temporary:
            save_file(tensors, temporary, {"tokenizer": _hash(path.with_name(TOKENIZER))})
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: could not be written ({reason}); make room and try again") from None


def load_weights(model: nn.Module, path: Path) -> None:
    """Fills a model with the weights of a file that must fit it exactly; rounded ones are numbers again."""
    try:
        values = load_file(path)
    except (OSError, SafetensorError) as error:
        raise unreadable(path, error) from None
    set_weights(model, dequantize(values, location=str(path)), place=str(path))


def _shapes(path: Path) -> list[list[int]]:
    """Of the tensors in a file, without reading them."""
    try:
        with safe_open(path, framework="pt") as file:
            return [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> ModelError:
    """Why a file gives no weights: it may not be read, or is broken."""
    try:
        path.open("rb").close()
    except OSError as refusal:
        # safetensors takes every file that does not open for one that is not there.
        return ModelError(f"{path}: {refusal.strerror}; change its rights, or copy it to where you may read")
    return ModelError(f"{path}: cut short or not a weights file ({error}); copy it again")


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


def _by(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))

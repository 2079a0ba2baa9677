"""Folders of Hugging Face's transformers library, in and out: settings, weights and tokenizer of a GPT."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

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
from clearhead.interop.architectures import family_for, family_of
from clearhead.interop.weight_map import Family, ours, theirs
from clearhead.models import GPT, GPTConfig
from clearhead.text.huggingface import read_json
from clearhead.text.tokenizer import Tokenizer

CONFIG, INDEX, PARTS = "config.json", "model.safetensors.index.json", "model-*.safetensors"
Made = TypeVar("Made")
KINDS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
CARD_TEXT = """# {name}

A language model of the family {kind}, imported from a Hugging Face folder. Its licence is that of its source.

    clearhead generate --model {name} "Once upon a time"
"""


def import_model(folder: Path, out: Path) -> GPT:
    """Writes a model's folder from one of Hugging Face; what is missing or has no place here is named."""
    check_new_folder(out)
    settings = _their_settings(folder)
    family = _said(folder / CONFIG, lambda: family_of(settings))
    config = _said(folder / CONFIG, lambda: _our_settings(family, settings))
    tensors = _their_tensors(folder)
    tokenizer = Tokenizer.from_huggingface(folder, _rows(settings, folder))
    check_sizes(config, tokenizer, [one.shape for one in tensors.values()], str(folder / CONFIG))
    model = build_for_loading(lambda: GPT(config, tokenizer.size))
    place = str(folder / WEIGHTS)
    set_weights(model, ours(family, model, tensors, place), place)
    out.mkdir(parents=True, exist_ok=True)
    kind = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    saved = {
        "model": config.model_dump(exclude_none=True),
        "origin": {"library": "huggingface", "family": family.kind, "precision": kind},
    }
    write_text(out / SETTINGS, tomli_w.dumps(saved))
    write_text(out / CARD, CARD_TEXT.format(name=out.name, kind=family.kind))
    tokenizer.save(out / Tokenizer.FILE)
    # Last: a folder is taken for a model once it has weights.
    save_weights(weights(model), out / WEIGHTS)
    return model


def export_model(folder: Path, out: Path) -> str:
    """Writes a folder for Hugging Face from a model's folder; gives the family that holds it."""
    check_new_folder(out)
    checkpoint = load_checkpoint(folder)
    if not isinstance(checkpoint.model, GPT):
        raise ModelError(
            f"{folder}: this model translates; only language models have a form for Hugging Face"
        )
    model, tokenizer = checkpoint.model, checkpoint.processor
    family = _said(folder / SETTINGS, lambda: family_for(model.config))
    origin = checkpoint.settings.get("origin")
    precision = origin.get("precision") if isinstance(origin, dict) else None
    precision = precision if precision in KINDS else "float32"
    settings = {
        "architectures": [family.architecture],
        "model_type": family.kind,
        "dtype": precision,
        "vocab_size": tokenizer.size,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": list(tokenizer.eos_ids) if len(tokenizer.eos_ids) > 1 else tokenizer.eos_id,
        **family.written(model.config),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / CONFIG, json.dumps(settings, indent=2) + "\n")
    for name, content in tokenizer.to_huggingface().items():
        write_text(out / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    tensors = {name: tensor.to(KINDS[precision]) for name, tensor in theirs(family, model).items()}
    with atomic_path(out / WEIGHTS) as temporary:
        save_file(tensors, temporary, {"format": "pt"})
    return family.kind


def _their_settings(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; name one with config.json and model.safetensors")
    if not (folder / CONFIG).is_file() and (folder / SETTINGS).is_file():
        raise ModelError(f"{folder}: is a model of this package already; use it as it is")
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder}: no model of Hugging Face here, {CONFIG} is missing")
    return read_json(folder / CONFIG)


def _our_settings(family: Family, settings: dict[str, Any]) -> GPTConfig:
    try:
        return GPTConfig.model_validate(family.read(settings))
    except ValidationError as error:
        raise ModelError(next(iter(problems(GPTConfig, error)))) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"a value is of another type than {family.kind} has ({error}); copy it again"
        ) from None


def _rows(settings: dict[str, Any], folder: Path) -> int:
    rows = settings.get("vocab_size")
    if not isinstance(rows, int) or rows < 1:
        raise ModelError(f"{folder / CONFIG}: vocab_size: {rows!r} is not a number of tokens")
    return rows


def _their_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors, whether in one file or in several."""
    paths = [folder / WEIGHTS] if (folder / WEIGHTS).is_file() else sorted(folder.glob(PARTS))
    if (folder / INDEX).is_file():
        held = read_json(folder / INDEX).get("weight_map")
        if not isinstance(held, dict):
            raise ModelError(
                f"{folder / INDEX}: weight_map: does not name the file of each tensor; copy it again"
            )
        named = set(held.values())
        if missing := sorted(named - {path.name for path in paths}):
            raise ModelError(f"{folder}: {missing[0]} is missing; copy the folder again")
    if not paths:
        raise ModelError(
            f"{folder}: {WEIGHTS} is missing; a pytorch_model.bin may run code and is not read: convert it"
        )
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            tensors |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise unreadable(path, error) from None
    return tensors


def _said(place: Path, make: Callable[[], Made]) -> Made:
    """What is made; an error in it is told with its place."""
    try:
        return make()
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from None

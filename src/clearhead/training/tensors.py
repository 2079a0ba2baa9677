"""Trees of tensors and JSON values as safetensors files: written whole or not at all, checked when read."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.files import atomic_path

Tree = Mapping[str, Any]
"""Names to tensors, JSON values, or trees."""


def write_tree(path: Path, tree: Tree) -> str:
    """Writes the file under another name, forces it to the disk, renames it; gives its checksum."""
    tensors, notes = flatten(tree)
    tensors = _apart(tensors)
    about = {"notes": json.dumps(notes)}
    about["sha256"] = _checksum(tensors, about["notes"])
    with atomic_path(path) as temporary:
        _save(tensors, temporary, about)
    return about["sha256"]


def read_tree(path: Path) -> dict[str, Any]:
    """The tree in a file, its tensors on the processor; ModelError if the file is not what was written."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: cut short or not a safetensors file ({error})") from None
    if "sha256" in about and about["sha256"] != _checksum(tensors, about["notes"]):
        raise ModelError(f"{path}: damaged, its checksum does not fit its content")
    return unflatten(tensors, json.loads(about.get("notes", "{}")))


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that holds one model's weights."""
    return {name: value for name, value in read_tree(path).items() if isinstance(value, Tensor)}


def read_notes(path: Path) -> dict[str, Any]:
    """What is not a tensor, without reading the tensors; {} where that cannot be read."""
    return json.loads(_about(path).get("notes", "{}"))


def read_checksum(path: Path) -> str | None:
    """The checksum that the file was written with."""
    return _about(path).get("sha256")


def flatten(tree: Tree) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by the path of their keys, joined by /; and the tree of everything else."""
    tensors: dict[str, Tensor] = {}
    notes: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Tensor):
            tensors[key] = value.detach()
        elif isinstance(value, Mapping):
            inner, notes[key] = flatten(value)
            tensors |= {f"{key}/{name}": tensor for name, tensor in inner.items()}
        else:
            notes[key] = value
    return tensors, notes


def unflatten(tensors: Mapping[str, Tensor], notes: dict[str, Any]) -> dict[str, Any]:
    """The tree that was flattened."""
    for path, tensor in tensors.items():
        *parents, name = path.split("/")
        group = notes
        for parent in parents:
            group = group.setdefault(parent, {})
        group[name] = tensor
    return notes


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the processor, none sharing memory with another, as the file format wants them."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return apart


def _checksum(tensors: Mapping[str, Tensor], notes: str) -> str:
    digest = hashlib.sha256(notes.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _save(tensors: Mapping[str, Tensor], path: Path, about: dict[str, str]) -> None:
    try:
        save_file(dict(tensors), path, about)
    except SafetensorError as error:
        # The library hands the system's error on as text alone.
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _about(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError):
        return {}

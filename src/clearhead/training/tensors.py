"""Trees of tensors and JSON values in safetensors files: written atomically, verified when read."""

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
    """Writes the file under another name, syncs it to disk and renames it; returns its checksum."""
    tensors, notes = flatten(tree)
    tensors = _unshared(tensors)
    metadata = {"notes": json.dumps(notes)}
    metadata["sha256"] = _checksum(tensors, metadata["notes"])
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            # The library passes the system's error on as text only.
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(temporary)) from error
    return metadata["sha256"]


def read_tree(path: Path) -> dict[str, Any]:
    """The tree in a file, its tensors on the CPU; ModelError if the file is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: truncated or not a safetensors file ({error})") from None
    if "sha256" in metadata and metadata["sha256"] != _checksum(tensors, metadata["notes"]):
        raise ModelError(f"{path}: damaged, its checksum does not match its content")
    return unflatten(tensors, json.loads(metadata.get("notes", "{}")))


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of weights."""
    return {name: value for name, value in read_tree(path).items() if isinstance(value, Tensor)}


def read_notes(path: Path) -> dict[str, Any]:
    """The JSON values of a tree, without reading its tensors; {} if the file is unreadable."""
    return json.loads(_metadata(path).get("notes", "{}"))


def read_checksum(path: Path) -> str | None:
    """The checksum that the file was written with."""
    return _metadata(path).get("sha256")


def flatten(tree: Tree) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by the path of their keys, joined by /, and the tree of everything else."""
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
    """The inverse of `flatten`."""
    for path, tensor in tensors.items():
        *parents, name = path.split("/")
        group = notes
        for parent in parents:
            group = group.setdefault(parent, {})
        group[name] = tensor
    return notes


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, none sharing memory with another, as the file format requires."""
    unshared: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.cpu().contiguous()
        address = tensor.untyped_storage().data_ptr()
        unshared[name] = tensor.clone() if address in seen else tensor
        seen.add(address)
    return unshared


def _checksum(tensors: Mapping[str, Tensor], notes: str) -> str:
    digest = hashlib.sha256(notes.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError):
        return {}

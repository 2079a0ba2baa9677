"""The two formats of a saved state: one file written by rank 0, or a folder with one file per rank."""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.files import fsync, temporary_path, write_text
from clearhead.training.tensors import Tree, flatten, read_notes, read_tree, unflatten, write_tree

MANIFEST = "manifest.json"
Allocate = Callable[[str, torch.Size, torch.dtype], Tensor]
"""Returns the tensor to be filled, by its path in the tree, its unsharded size and its dtype."""


def cpu_tensor(path: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
    """An unsharded tensor on the CPU."""
    return torch.empty(size, dtype=dtype)


class SingleFile:
    """For ranks that hold copies; the weights are in a file of their own."""

    suffix = ".safetensors"

    def full(self, weights: Mapping[str, Tensor], ranks: Any) -> Mapping[str, Tensor]:
        """Unsharded weights in rank 0; a collective call."""
        return weights

    def write(self, path: Path, state: Tree, ranks: Any) -> None:
        """Writes a state atomically; a collective call, and an OSError of one rank is raised in all."""
        rest = {name: value for name, value in state.items() if name != "weights"}
        ranks.first(lambda: write_tree(path, rest))

    def check(self, path: Path) -> None:
        """Raises ModelError if the state is damaged."""
        read_tree(path)

    def read(self, path: Path, allocate: Allocate) -> dict[str, Any]:
        return read_tree(path)

    def notes(self, path: Path) -> dict[str, Any]:
        """The JSON values of the state; {} if it is unreadable."""
        return read_notes(path)


class FilePerRank(SingleFile):
    """For ranks that hold shards: a folder with one file per rank and a manifest.

    torch.distributed.checkpoint writes and reads the files, so any number of ranks can read what another
    number wrote. Of its formats only safetensors is used: reading the others can run code. It is imported
    where it is used, because that takes half a second.
    """

    suffix = ""

    def full(self, weights: Mapping[str, Tensor], ranks: Any) -> dict[str, Tensor]:
        from torch.distributed.tensor import DTensor

        whole = {}
        for name, tensor in weights.items():
            one = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if ranks.rank == 0:
                whole[name] = one.cpu()
        return whole

    def write(self, path: Path, state: Tree, ranks: Any) -> None:
        """Writes the shards of every rank, then the manifest, then renames the folder."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        tensors, notes = flatten(state)
        temporary = temporary_path(path)
        ranks.first(lambda: _make_empty(temporary))
        try:
            writer = HuggingFaceStorageWriter(str(temporary), save_distributed=True)
            save(tensors, storage_writer=writer, process_group=ranks.control)
        except CheckpointException as failure:
            ranks.first(lambda: shutil.rmtree(temporary, ignore_errors=True))
            (_, (error, _)), *_ = failure.failures.items()
            raise error from None
        # Listed by one rank: a network folder may not look the same to all of them at once.
        names = ranks.first(lambda: sorted(file.name for file in temporary.iterdir()))
        mine = {name: _checksum(temporary / name) for name in names[ranks.rank :: ranks.count]}
        files = {name: checksum for some in ranks.gather(mine) for name, checksum in some.items()}
        ranks.first(lambda: _finish(temporary, path, {"ranks": ranks.count, "files": files, "notes": notes}))

    def check(self, path: Path) -> None:
        files = _manifest(path)["files"]
        there = {file.name for file in path.iterdir()} - {MANIFEST}
        for name in sorted(files.keys() | there):
            if name not in there:
                raise ModelError(f"{path / name}: missing; the state has {len(files)} files, one per rank")
            if name not in files:
                raise ModelError(f"{path / name}: unexpected file, not listed in {MANIFEST}")
            if _checksum(path / name) != files[name]:
                raise ModelError(f"{path / name}: damaged, its checksum does not match its content")

    def read(self, path: Path, allocate: Allocate) -> dict[str, Any]:
        """The state, read into tensors from `allocate`; each rank reads only its shards."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        found = HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata
        tensors: dict[str, Any] = {
            name: allocate(name, of.size, of.properties.dtype)  # pyright: ignore
            for name, of in found.items()
        }
        with warnings.catch_warnings():
            # Reading needs no communication between ranks.
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(tensors, storage_reader=HuggingFaceStorageReader(str(path)), no_dist=True)
        return unflatten(tensors, _manifest(path)["notes"])

    def notes(self, path: Path) -> dict[str, Any]:
        try:
            return _manifest(path)["notes"]
        except ModelError:
            return {}


FORMATS = (SingleFile(), FilePerRank())


def format_of(path: Path) -> SingleFile | None:
    """The format of a file or folder, by its suffix."""
    return next((one for one in FORMATS if one.suffix == path.suffix), None)


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def _finish(temporary: Path, folder: Path, manifest: dict[str, Any]) -> None:
    manifest["sha256"] = _checksum_of(manifest)
    write_text(temporary / MANIFEST, json.dumps(manifest))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    fsync(folder.parent)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        checksum = manifest.pop("sha256")
    except FileNotFoundError:
        raise ModelError(f"{path}: missing, so the files of the state are unknown") from None
    except (OSError, ValueError, KeyError, AttributeError):
        raise ModelError(f"{path}: truncated or not a manifest") from None
    if checksum != _checksum_of(manifest):
        raise ModelError(f"{path}: damaged, its checksum does not match its content")
    return manifest


def _checksum_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""The two formats of a saved state: one file written by rank 0, or a folder with one file per rank."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from clearhead.training.manifest import (
    Allocate,
    check_shards,
    gather_tensors,
    read_shard_notes,
    read_shards,
    write_shards,
)
from clearhead.training.tensors import Tree, read_notes, read_tree, write_tree


class SingleFile:
    """For ranks that hold copies; the weights are in a file of their own."""

    suffix = ".safetensors"

    def full(self, weights: Mapping[str, Tensor], ranks: Any) -> Mapping[str, Tensor]:
        """Unsharded weights, in rank 0."""
        return weights

    def write(self, path: Path, state: Tree, ranks: Any) -> None:
        """Writes a state atomically; a collective call, and an error of one rank is raised in all."""
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
    """For ranks that hold shards."""

    suffix = ""

    def full(self, weights: Mapping[str, Tensor], ranks: Any) -> Mapping[str, Tensor]:
        return gather_tensors(weights, ranks)

    def write(self, path: Path, state: Tree, ranks: Any) -> None:
        write_shards(path, state, ranks)

    def check(self, path: Path) -> None:
        check_shards(path)

    def read(self, path: Path, allocate: Allocate) -> dict[str, Any]:
        return read_shards(path, allocate)

    def notes(self, path: Path) -> dict[str, Any]:
        return read_shard_notes(path)


FORMATS = (SingleFile(), FilePerRank())


def format_of(path: Path) -> SingleFile | None:
    """The format of a file or folder, by its suffix."""
    return next((one for one in FORMATS if one.suffix == path.suffix), None)

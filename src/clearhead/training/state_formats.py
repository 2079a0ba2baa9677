"""The two forms that a saved state has: a file that rank 0 writes, or a folder with a file a rank."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from clearhead.training.manifest import (
    Place,
    check_shards,
    gathered,
    read_shard_notes,
    read_shards,
    write_shards,
)
from clearhead.training.ranks import Group, Ranks
from clearhead.training.tensors import Tree, read_notes, read_tree, write_tree


class Form(Protocol):
    """How a state lies on the disk."""

    suffix: str

    def whole(self, weights: Mapping[str, Tensor], ranks: Any) -> Mapping[str, Tensor]:
        """The weights to be published, in rank 0."""
        ...

    def write(self, path: Path, state: Tree, ranks: Any) -> None:
        """Writes a state whole or not at all; all ranks call it together, and an error is raised in all."""
        ...

    def check(self, path: Path) -> None:
        """ModelError if it is not what was written."""
        ...

    def read(self, path: Path, place: Place) -> dict[str, Any]: ...

    def notes(self, path: Path) -> dict[str, Any]:
        """What is not a tensor; {} where that cannot be read."""
        ...


class OneFile:
    """For ranks that all hold the same; the weights are left to the file that is beside it anyway."""

    suffix = ".safetensors"

    def whole(self, weights: Mapping[str, Tensor], ranks: Ranks) -> Mapping[str, Tensor]:
        return weights

    def write(self, path: Path, state: Tree, ranks: Ranks) -> None:
        rest = {name: value for name, value in state.items() if name != "weights"}
        ranks.first(lambda: write_tree(path, rest))

    def check(self, path: Path) -> None:
        read_tree(path)

    def read(self, path: Path, place: Place) -> dict[str, Any]:
        return read_tree(path)

    def notes(self, path: Path) -> dict[str, Any]:
        return read_notes(path)


class FileARank:
    """For ranks that hold shards."""

    suffix = ""

    def whole(self, weights: Mapping[str, Tensor], ranks: Group) -> Mapping[str, Tensor]:
        return gathered(weights, ranks)

    def write(self, path: Path, state: Tree, ranks: Group) -> None:
        write_shards(path, state, ranks)

    def check(self, path: Path) -> None:
        check_shards(path)

    def read(self, path: Path, place: Place) -> dict[str, Any]:
        return read_shards(path, place)

    def notes(self, path: Path) -> dict[str, Any]:
        return read_shard_notes(path)


FORMS: tuple[Form, ...] = (OneFile(), FileARank())


def form_of(path: Path) -> Form | None:
    """The form that a file or folder has by its name."""
    return next((form for form in FORMS if form.suffix == path.suffix), None)

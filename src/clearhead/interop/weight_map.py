"""The correspondence between a model's parameters and the tensors of a Hugging Face checkpoint."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import ModelError

# How the first BERT checkpoints name the parameters of a norm.
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


@dataclass(frozen=True)
class Tensors:
    """The tensors that make up one parameter, concatenated along its first axis."""

    names: tuple[str, ...]
    transposed: bool = False
    """GPT-2 stores its matrices as (in, out)."""
    unused_rows: int = 0
    """The first rows that no token uses: RoBERTa's positions start at 2."""
    leading_axes: int = 0
    """Axes of size 1 before those of the parameter."""
    split_axis: int | None = None
    """The axis of the stream, if its even dimensions come before the odd ones: Marian's sinusoids do not
    alternate."""

    def read(self, part: Tensor) -> Tensor:
        """A tensor of a checkpoint as part of the parameter."""
        part = part.t() if self.transposed and part.dim() == 2 else part
        for _ in range(self.leading_axes if part.dim() > self.leading_axes else 0):
            part = part.squeeze(0)
        part = part[self.unused_rows :] if part.dim() else part
        return part if self.split_axis is None else _alternated(part, self.split_axis)

    def write(self, part: Tensor) -> Tensor:
        """A part of the parameter as the tensor of a checkpoint."""
        part = part if self.split_axis is None else _split(part, self.split_axis)
        unused = part.new_zeros(self.unused_rows, *part.shape[1:])
        part = torch.cat((unused, part)) if self.unused_rows else part
        part = part[(None,) * self.leading_axes] if self.leading_axes else part
        return (part.T if self.transposed else part).contiguous()


@dataclass(frozen=True)
class WeightMap:
    """The tensors of each parameter, for all models of one architecture."""

    prefix: str
    """Precedes the names of all tensors but those of the head."""
    model: Mapping[str, Tensors]
    stacks: Mapping[str, Mapping[str, Tensors]]
    """Parameters of one block of each stack, by the path of the stack; {} in a tensor's name is the number
    of the block."""
    head: Mapping[str, Tensors]
    ignored: tuple[str, ...] = field(default=())
    """Patterns of the names of tensors that the model does not need."""

    def entries(self, model: nn.Module) -> dict[str, Tensors]:
        """The tensors of each parameter of a model; shared parameters appear once."""
        paths = {parameter: path for path, parameter in reversed(list(_parameters(model).items()))}
        found: dict[str, Tensors] = {}
        for path, tensors in self._all(model):
            # Hugging Face stores a matrix that is also the readout as the embedding, which comes first.
            found.setdefault(paths[_parameters(model)[path]], tensors)
        return found

    def _all(self, model: nn.Module) -> Iterator[tuple[str, Tensors]]:
        """The tensors of each parameter, shared ones under each of their names."""
        parameters = _parameters(model)
        named = {path: self._prefixed(tensors) for path, tensors in self.model.items()}
        for stack, block in self.stacks.items():
            blocks = f"{stack}.blocks"
            for number, _ in enumerate(model.get_submodule(blocks).children()):
                named |= {
                    f"{blocks}.{number}.{path}": self._prefixed(tensors, number)
                    for path, tensors in block.items()
                }
        return ((path, one) for path, one in (named | dict(self.head)).items() if path in parameters)

    def from_huggingface(
        self, model: nn.Module, tensors: Mapping[str, Tensor], location: str
    ) -> dict[str, Tensor]:
        """Values for every parameter of a model; missing, unknown and misshapen tensors are errors."""
        parameters, entries = dict(model.named_parameters()), self.entries(model)
        known = {name for _, entry in self._all(model) for name in entry.names}
        tensors = {self._known_name(name, known): tensor for name, tensor in tensors.items()}
        values = {}
        for path, entry in entries.items():
            if missing := [name for name in entry.names if name not in tensors]:
                raise ModelError(f"{location}: {missing[0]} is missing; copy the folder again")
            parts = [tensors[name] for name in entry.names]
            turned = [entry.read(part) for part in parts]
            whole = parameters[path].shape
            fits = all(part.shape[1:] == whole[1:] and part.dim() == len(whole) for part in turned)
            if not fits or sum(map(len, turned)) != whole[0]:
                found = " and ".join(
                    f"{name} is {_shape(part)}" for name, part in zip(entry.names, parts, strict=True)
                )
                raise ModelError(
                    f"{location}: {found}, config.json expects {_shape(entry.write(parameters[path]))}"
                    f"{' together' if len(parts) > 1 else ''}; the files belong to different models"
                )
            values[path] = torch.cat(turned)
        for name in sorted(tensors.keys() - known):
            if not any(re.fullmatch(pattern, name) for pattern in self.ignored):
                raise ModelError(
                    f"{location}: {name} is unknown; the model that config.json describes has no such tensor"
                )
        return values

    def to_huggingface(self, model: nn.Module) -> dict[str, Tensor]:
        """The parameters of a model as Hugging Face names, splits and transposes them."""
        parameters, tensors = dict(model.named_parameters()), {}
        for path, entry in self.entries(model).items():
            value = parameters[path].detach()
            # A parameter of several tensors belongs to `Projections`.
            projections: Any = model.get_submodule(path.rpartition(".")[0])
            sizes = projections.sizes if len(entry.names) > 1 else (len(value),)
            for name, part in zip(entry.names, value.split(sizes), strict=True):
                tensors[name] = entry.write(part)
        return tensors

    def _known_name(self, name: str, known: set[str]) -> str:
        """The name that we know a tensor by: those of a model without its head lack the prefix."""
        for old, new in OLD_NAMES.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        return self.prefix + name if self.prefix + name in known else name

    def _prefixed(self, tensors: Tensors, number: int = 0) -> Tensors:
        names = tuple(self.prefix + name.format(number) for name in tensors.names)
        return replace(tensors, names=names)


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """All parameters by path, shared ones under each of their paths."""
    return dict(model.named_parameters(remove_duplicate=False))


def _split(part: Tensor, axis: int) -> Tensor:
    """The even dimensions of an axis, then the odd ones."""
    return part.index_select(axis, _even_then_odd(part.shape[axis]))


def _alternated(part: Tensor, axis: int) -> Tensor:
    """The inverse of `_split`; a part without such an axis stays as it is."""
    if axis >= part.dim():
        return part
    return part.index_select(axis, _even_then_odd(part.shape[axis]).argsort())


def _even_then_odd(size: int) -> Tensor:
    return torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a single number"

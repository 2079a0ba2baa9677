"""The correspondence between a GPT's parameters and the tensors of a Hugging Face checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.models.gpt import GPT

LM_HEAD = "lm_head.weight"
# Buffers that old checkpoints store although they follow from the settings.
IGNORED = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")


@dataclass(frozen=True)
class Tensors:
    """The tensors that make up one parameter, concatenated along its first axis."""

    names: tuple[str, ...]
    transposed: bool = False
    """GPT-2 stores its matrices as (in, out)."""


@dataclass(frozen=True)
class WeightMap:
    """The tensors of each parameter, for all models of one architecture."""

    prefix: str
    """Precedes every name except that of the readout."""
    model: Mapping[str, Tensors]
    block: Mapping[str, Tensors]
    """Parameters of one block; {} in a tensor's name is its number."""

    def entries(self, model: GPT) -> Iterator[tuple[str, Tensors]]:
        """The tensors of each parameter of a model; shared parameters appear once."""
        parameters = dict(model.named_parameters())
        outside = dict(self.model)
        if model.config.tied == "all":
            # named_parameters lists the shared matrix as readout_weight, Hugging Face as the embedding.
            outside["readout_weight"] = outside["embedding.weight"]
        for name, tensors in outside.items():
            if name in parameters:
                yield name, self._named(tensors)
        for number in range(model.config.layers):
            for name, tensors in self.block.items():
                if (path := f"decoder.blocks.{number}.{name}") in parameters:
                    yield path, self._named(tensors, number)

    def from_huggingface(self, model: GPT, tensors: Mapping[str, Tensor], location: str) -> dict[str, Tensor]:
        """Values for every parameter of a model; missing, unknown and misshapen tensors are errors."""
        parameters, entries = dict(model.named_parameters()), dict(self.entries(model))
        known = {name for entry in entries.values() for name in entry.names}
        # Checkpoints of a model without its head lack the prefix.
        tensors = {
            self.prefix + name if self.prefix + name in known else name: tensor
            for name, tensor in tensors.items()
        }
        values = {}
        for path, entry in entries.items():
            if missing := [name for name in entry.names if name not in tensors]:
                raise ModelError(f"{location}: {missing[0]} is missing; copy the folder again")
            parts = [tensors[name] for name in entry.names]
            turned = [part.t() if entry.transposed and part.dim() == 2 else part for part in parts]
            whole = parameters[path].shape
            fits = all(part.shape[1:] == whole[1:] and part.dim() == len(whole) for part in turned)
            if not fits or sum(map(len, turned)) != whole[0]:
                found = " and ".join(
                    f"{name} is {_shape(part)}" for name, part in zip(entry.names, parts, strict=True)
                )
                expected = _shape(parameters[path].t() if entry.transposed else parameters[path])
                raise ModelError(
                    f"{location}: {found}, config.json expects {expected}"
                    f"{' together' if len(parts) > 1 else ''}; the files belong to different models"
                )
            values[path] = torch.cat(turned)
        for name in sorted(tensors.keys() - known):
            tied = name == LM_HEAD and model.config.tied == "all"
            if not tied and not name.endswith(IGNORED):
                raise ModelError(
                    f"{location}: {name} is unknown; the model that config.json describes has no such tensor"
                )
        return values

    def to_huggingface(self, model: GPT) -> dict[str, Tensor]:
        """The parameters of a model as Hugging Face names, splits and transposes them."""
        parameters, tensors = dict(model.named_parameters()), {}
        for path, entry in self.entries(model):
            value = parameters[path].detach()
            # A parameter of several tensors belongs to `Projections`.
            projections: Any = model.get_submodule(path.rpartition(".")[0])
            sizes = projections.sizes if len(entry.names) > 1 else (len(value),)
            for name, part in zip(entry.names, value.split(sizes), strict=True):
                tensors[name] = (part.T if entry.transposed else part).contiguous()
        return tensors

    def _named(self, tensors: Tensors, number: int = 0) -> Tensors:
        names = (name.format(number) for name in tensors.names)
        prefixed = tuple(name if name == LM_HEAD else self.prefix + name for name in names)
        return Tensors(prefixed, tensors.transposed)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a single number"

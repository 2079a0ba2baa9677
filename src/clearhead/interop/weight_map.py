"""Weights as another library has them: the same numbers under other names, joined or turned."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.models.gpt import GPT, GPTConfig

READOUT = "lm_head.weight"
DROPPED = ("rotary_emb.inv_freq", "attn.bias", "attn.masked_bias")
"""What older folders hold beside the weights: tables that follow from the settings."""


@dataclass(frozen=True)
class WeightMap:
    """The tensors that together are one of ours: one below the other, each turned where theirs are."""

    names: tuple[str, ...]
    turned: bool = False


@dataclass(frozen=True)
class Family:
    """A kind of model in their library."""

    kind: str
    """Their `model_type`."""
    architecture: str
    prefix: str
    """Before all names but that of the readout."""
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    """From their settings to ours."""
    written: Callable[[GPTConfig], dict[str, Any]]
    """From our settings to theirs."""
    outside: Mapping[str, WeightMap]
    inside: Mapping[str, WeightMap]
    """Of each block, {} being its number."""

    def names(self, model: GPT) -> Iterator[tuple[str, WeightMap]]:
        """Which of their tensors each of our weights is, a shared one once."""
        held = dict(model.named_parameters())
        outside = dict(self.outside)
        if model.config.tied == "all":
            # One weight, which goes by the first of its names with us and by the second with them.
            outside["readout_weight"] = outside["embedding.weight"]
        for name, theirs in outside.items():
            if name in held:
                yield name, self._placed(theirs)
        for number in range(model.config.layers):
            for name, theirs in self.inside.items():
                ours = f"decoder.blocks.{number}.{name}"
                if ours in held:
                    yield ours, self._placed(theirs, number)

    def _placed(self, theirs: WeightMap, number: int = 0) -> WeightMap:
        names = (one.format(number) for one in theirs.names)
        return WeightMap(tuple(one if one == READOUT else self.prefix + one for one in names), theirs.turned)


def ours(family: Family, model: GPT, theirs: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """Their tensors as weights of a model; one that is missing, left over or of another shape is named."""
    shapes = dict(model.named_parameters())
    names = dict(family.names(model))
    known = {one for wanted in names.values() for one in wanted.names}
    # A folder that holds a model without its readout has no prefix before its names.
    theirs = {
        family.prefix + name if family.prefix + name in known else name: theirs[name] for name in theirs
    }
    values = {}
    for name, wanted in names.items():
        for one in wanted.names:
            if one not in theirs:
                raise ModelError(f"{place}: {one} is missing; copy the folder again")
        parts = [
            theirs[one].t() if wanted.turned and theirs[one].dim() == 2 else theirs[one]
            for one in wanted.names
        ]
        if not _fit(parts, shapes[name]):
            said = _differing(wanted, [theirs[one] for one in wanted.names], shapes[name])
            raise ModelError(f"{place}: {said}; the files belong to different models")
        values[name] = torch.cat(parts)
    for name in sorted(theirs.keys() - known):
        tied = name == READOUT and model.config.tied == "all"
        if not tied and not name.endswith(DROPPED):
            raise ModelError(f"{place}: {name} has no place in a model of model_type {family.kind}")
    return values


def theirs(family: Family, model: GPT) -> dict[str, Tensor]:
    """The weights of a model as their tensors."""
    held, found = dict(model.named_parameters()), {}
    for name, wanted in family.names(model):
        sizes = _sizes(model, name) if len(wanted.names) > 1 else (len(held[name]),)
        for one, part in zip(wanted.names, held[name].detach().split(sizes), strict=True):
            found[one] = (part.T if wanted.turned else part).contiguous()
    return found


def _sizes(model: GPT, name: str) -> tuple[int, ...]:
    return model.get_submodule(name.rpartition(".")[0]).sizes  # pyright: ignore[reportReturnType]


def _fit(parts: Sequence[Tensor], whole: Tensor) -> bool:
    """Whether the parts, one below the other, have the shape of the whole."""
    same = all(part.dim() == whole.dim() and part.shape[1:] == whole.shape[1:] for part in parts)
    return same and sum(map(len, parts)) == len(whole)


def _differing(theirs: WeightMap, parts: Sequence[Tensor], whole: Tensor) -> str:
    """The shapes as they are in their file."""
    held = " and ".join(f"{name} is {_by(part)}" for name, part in zip(theirs.names, parts, strict=True))
    asked = _by(whole.t() if theirs.turned else whole)
    return f"{held}, config.json asks for {asked}{' batches_per_step' if len(parts) > 1 else ''}"


def _by(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a single number"

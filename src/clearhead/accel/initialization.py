"""Building a model without sampling the weights that loading overwrites; sampling takes longest."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clearhead.accel import enabled
from clearhead.accel.torch_private import StorageSet

M = TypeVar("M", bound=nn.Module)
# Random fills that are skipped; all others are sampled, and lead to a plain build.
FILLS = ("uniform_", "normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_")
# What code may read of an unsampled tensor without depending on its values.
METADATA = ("__get__", "__set__", "__len__", "size", "stride", "dim", "numel", "is_floating_point")


class _UnsampledError(Exception):
    """Code read a value that was never sampled."""


class _SkipSampling(TorchFunctionMode):
    """Leaves random tensors uninitialised, and tracks their memory and that of all that depends on them."""

    def __init__(self) -> None:
        super().__init__()
        self.unsampled = StorageSet()
        self.was_read = False

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        filled = args[0] if args else kwargs.get("tensor")
        depends = any(tensor in self.unsampled for tensor in _tensors((args, kwargs)))
        if kwargs.get("generator") is None and function is torch.randn:
            result, depends = torch.empty(*args, **kwargs), True
        elif kwargs.get("generator") is None and name in FILLS and isinstance(filled, Tensor):
            result, depends = filled, True
        else:
            result = function(*args, **kwargs)
        if depends:
            made = list(_tensors(result))
            if not made and name not in METADATA:
                self.was_read = True
                raise _UnsampledError(name)
            for tensor in made:
                self.unsampled.add(tensor)
        return result


def build_for_loading(build: Callable[[], M]) -> M:
    """The model that `build` returns, whose state dict is then loaded whole.

    What is in the state dict is not sampled; everything else is as after a plain build. To be sure of that,
    the model is built a second time, plainly, if anything outside the state dict depends on random numbers.
    """
    if not enabled():
        return build()
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    mode = _SkipSampling()
    # A plain build raises the error again, unless it came from an unsampled value.
    with suppress(Exception):
        with mode:
            model = build()
        loaded = list(model.state_dict(keep_vars=True).values())
        sampled = not torch.equal(torch.get_rng_state(), before[0])
        if not (sampled or mode.was_read or mode.unsampled.alive_without(loaded)):
            return model
    torch.set_rng_state(before[0])
    random.setstate(before[1])
    np.random.set_state(before[2])
    return build()


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)

"""Private torch functions under names of our own, with plain torch where the room is off."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from clearhead.accel import enabled

F = TypeVar("F", bound=Callable)


def uncompiled(function: F) -> F:
    """The function, left out of compiled graphs; torch.compiler.disable would cost a second at import."""
    return torch._disable_dynamo(function) if enabled() else function  # pyright: ignore


def lerp_all_(means: Sequence[Tensor], values: Sequence[Tensor], share: Tensor) -> None:
    """Moves each mean towards its value by a share."""
    if enabled():
        torch._foreach_mul_(means, 1 - share)  # pyright: ignore
        torch._foreach_add_(means, torch._foreach_mul(values, share))  # pyright: ignore
        return
    for mean, value in zip(means, values, strict=True):
        mean.mul_(1 - share).add_(value * share)


def divide_all_(tensors: Sequence[Tensor], divisor: Tensor) -> None:
    """Divides every tensor in place."""
    if enabled():
        torch._foreach_div_(tensors, divisor)  # pyright: ignore
        return
    for tensor in tensors:
        tensor.div_(divisor)


def copy_all_(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copies each source into its target."""
    if enabled():
        torch._foreach_copy_(targets, sources)  # pyright: ignore
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def linear_and_activation(x: Tensor, weight: Tensor, bias: Tensor, gelu: bool) -> Tensor:
    """relu(x Wᵀ + b), or gelu by its tanh approximation, in one kernel of a GPU."""
    rows = torch._addmm_activation(bias, x.flatten(0, -2), weight.t(), use_gelu=gelu)  # pyright: ignore
    return rows.view(*x.shape[:-1], -1)


def has_hooks(*modules: nn.Module) -> bool:
    """Whether a forward or backward hook is registered on one of the modules."""
    for module in modules:
        if (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
        ):
            return True
    return False


def modules_within(model: nn.Module) -> list[nn.Module]:
    """The model and all modules in it, each once; `model.modules()` takes longer."""
    found = {model: None}
    pending = [model]
    for module in pending:
        for inner in module._modules.values():
            if inner is not None and inner not in found:
                found[inner] = None
                pending.append(inner)
    return pending


def any_has(modules: Sequence[nn.Module], name: str) -> bool:
    """Whether one of the modules has this attribute, and it is set; `getattr` is slow for a missing one."""
    return any(vars(module).get(name) or module._modules.get(name) is not None for module in modules)


def weight_versions(modules: Sequence[nn.Module]) -> list[tuple[int, int]]:
    """Address and version of every parameter: different after the weights were changed."""
    return [
        (p.data_ptr(), 0 if p.is_inference() else p._version)
        for module in modules
        for p in module._parameters.values()
        if p is not None
    ]


def quantized_matrix(values: Tensor, scales: Tensor) -> Tensor:
    """A quantized matrix of int8 values with a scale per row."""
    zeros = torch.zeros(len(values), dtype=torch.long)
    return torch._make_per_channel_quantized_tensor(values, scales, zeros, 0)  # pyright: ignore


class StorageSet:
    """The memory of tensors, held weakly: it does not keep any alive."""

    def __init__(self) -> None:
        # A weak reference keeps the address from being used again.
        self._held: dict[int, StorageWeakRef] = {}

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self._held.setdefault(storage._cdata, StorageWeakRef(storage))

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._held

    def alive_without(self, tensors: Sequence[Tensor]) -> bool:
        """Whether memory is in use that is not wholly that of one of these tensors."""
        storages = [(tensor, tensor.untyped_storage()) for tensor in tensors]
        whole = {storage._cdata for tensor, storage in storages if tensor.nbytes == storage.nbytes()}
        return any(key not in whole and not held.expired() for key, held in self._held.items())

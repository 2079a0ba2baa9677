"""A model's weights as a dict and back, in place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from clearhead.errors import TrainingError


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name, a shared one once; the tensors are those in use, not copies."""
    first: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, tensor in held.items():
        first.setdefault(id(tensor), name)
    return {name: held[name].detach() for name in first.values()}


@torch.no_grad()
def load_weights(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Writes values over a model's weights, which they must fit exactly."""
    held = weights(model)
    for name in sorted(held.keys() | values.keys()):
        if name not in values or name not in held:
            where = "the saved state" if name in values else "the model"
            raise TrainingError(
                f"{name}: only {where} has it; resume with the settings that the run began with"
            )
        if held[name].shape != values[name].shape:
            ours, saved = (" x ".join(map(str, part[name].shape)) for part in (held, values))
            raise TrainingError(f"{name}: {saved} in the saved state, but the model has {ours}")
    for name, tensor in held.items():
        tensor.copy_(values[name])

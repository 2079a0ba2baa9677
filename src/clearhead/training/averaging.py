"""Averages of weights: over the steps of a run, and over saved files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.accel.torch_private import lerp_all_
from clearhead.checkpoint import weights
from clearhead.errors import ModelError
from clearhead.training.tensors import read_weights


class MovingAverage:
    """An exponential moving average of a model's parameters (Polyak and Juditsky 1992).

    The decay of step n is at most (1 + n) / (10 + n), so that the random initialisation is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.model = model
        self.decay = decay
        self._live = {name: p.detach() for name, p in model.named_parameters()}
        self._mean = {name: p.clone() for name, p in self._live.items()}

    @torch.no_grad()
    def update(self, step: int, diverged: Tensor) -> None:
        """Moves the mean towards the weights, unless `diverged` is 1; does not wait for the device."""
        decay = min(self.decay, (1 + step) / (10 + step))
        share = (1 - diverged) * (1 - decay)
        lerp_all_(list(self._mean.values()), list(self._live.values()), share)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The model has the averaged weights inside, and exactly its own again afterwards."""
        own = {name: live.clone() for name, live in self._live.items()}
        self._write(self._mean)
        try:
            yield
        finally:
            self._write(own)

    def weights(self) -> dict[str, Tensor]:
        """The model's weights, with each parameter replaced by its mean."""
        return weights(self.model) | self._mean

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Continues from what `weights` returned."""
        for name, mean in self._mean.items():
            mean.copy_(weights[name])

    @torch.no_grad()
    def _write(self, weights: dict[str, Tensor]) -> None:
        for name, live in self._live.items():
            live.copy_(weights[name])


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of saved weights, summed in float64; integers are those of the last file."""
    if not paths:
        raise ModelError("average: no weights to average")
    last = read_weights(paths[0])
    total = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in last.items()}
    for path in paths:
        last = read_weights(path)
        for name in sorted(total.keys() | last.keys()):
            if name not in total or name not in last or total[name].shape != last[name].shape:
                raise ModelError(f"{path}: {name} differs from {paths[0]}; average files of one run only")
            total[name] += last[name]
    mean = {name: (total[name] / len(paths)).to(t.dtype) for name, t in last.items() if t.is_floating_point()}
    return last | mean


def interpolate(
    weights: Mapping[str, Tensor], other: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """Linear interpolation between two sets of weights, `share` of the other; integers stay as they are."""
    return {
        name: tensor.lerp(other[name].to(tensor), share) if tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }

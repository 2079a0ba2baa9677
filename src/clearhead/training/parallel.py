"""How several ranks train one model: each has a copy of it, or each holds a shard."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import get_total_norm

from clearhead.checkpoint import set_weights, weights
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.manifest import anywhere
from clearhead.training.passes import CudaGraphPasses, Loss, Objective, Passes, Regions
from clearhead.training.ranks import Group, Ranks

# Gradients travel in parcels: large enough for the network, and the next is packed while one is on its way.
PARCEL = 1 << 24


class SingleProcess:
    """The model as it is, in one process."""

    retries = True
    """Whether a rank may do a pass again, in smaller parts, without the others knowing."""

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device):
        self.config, self.model, self.loss, self.device = config, model.to(device), loss, device

    def passes(self, autocast: Callable[[], AbstractContextManager]) -> Passes:
        """How this rank goes forward and backward over a batch."""
        compiled = self.config.compile
        if self.device.type == "cuda":
            regions = Regions(self.model) if compiled != "off" else None
            return CudaGraphPasses(Objective(self.model, self.loss), self.device, autocast, regions)
        chosen = torch.compile(self.loss, dynamic=True) if compiled == "on" else self.loss
        return Passes(Objective(self.model, chosen), self.device, autocast)

    def summed(self, gradients: list[Tensor]) -> list[Tensor]:
        """The gradients of all batches of a step, whichever ranks they were on."""
        return gradients

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """The length of the whole gradient."""
        return get_total_norm(gradients)

    def gathered(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole weights, in rank 0; all ranks ask for them together."""
        return dict(weights)

    def place(self, path: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        """Where a tensor goes that was saved in shards, by its path in the state."""
        return anywhere(path, size, dtype)

    def spread(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same state with each tensor laid out as the parameter whose name is in its path."""
        return state

    def showing(self, weights: Mapping[str, Tensor]) -> Any:
        """The model with other whole weights, in rank 0, for looking at."""
        set_weights(self.model, weights, "the weights to show")
        return self.model

    @contextmanager
    def published(self, average: MovingAverage | None) -> Iterator[Any]:
        """The model as it would be published now, in rank 0; all ranks ask for it together."""
        with average.swapped() if average else nullcontext():
            yield self.model


class DataParallel(SingleProcess):
    """Every rank has the whole model, and gradients are summed over the ranks once a step.

    They are sent after the passes, not during them as torch's DistributedDataParallel does: so passes can be
    recorded, and a rank that is short of memory can do one again. What overlapping would save is little:
    the parameters are sent once a step, which is a small part of it for as long as a step has thousands of
    tokens a rank.
    """

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device):
        super().__init__(config, model, loss, device)
        for weight in weights(model).values():
            dist.broadcast(weight, src=0)

    def summed(self, gradients: list[Tensor]) -> list[Tensor]:
        sent = [_send(parcel) for parcel in _parcels(gradients)]
        for parcel, flat, work in sent:
            work.wait()
            sizes = [gradient.numel() for gradient in parcel]
            parts = [part.view_as(of) for part, of in zip(flat.split(sizes), parcel, strict=True)]
            torch._foreach_copy_(parcel, parts)  # pyright: ignore[reportPrivateImportUsage]
        return gradients


def _parcels(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    parcel: list[Tensor] = []
    for gradient in gradients:
        parcel.append(gradient)
        if sum(one.numel() for one in parcel) >= PARCEL:
            yield parcel
            parcel = []
    if parcel:
        yield parcel


def _send(parcel: list[Tensor]) -> tuple[list[Tensor], Tensor, Any]:
    flat = torch.cat([gradient.flatten() for gradient in parcel])
    return parcel, flat, dist.all_reduce(flat, async_op=True)


def parallel(
    config: TrainingConfig, model: Any, loss: Loss, device: torch.device, ranks: Ranks
) -> SingleProcess:
    """The model as these ranks train it."""
    if not isinstance(ranks, Group):
        return SingleProcess(config, model, loss, device)
    if config.parallel == "data_parallel":
        return DataParallel(config, model, loss, device)
    # Imported here because it takes half a second, which nobody should wait who only translates.
    from clearhead.training.shards import FullySharded

    return FullySharded(config, model, loss, device, ranks)

"""A model that no rank holds alone: each has a part of every parameter."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from clearhead.checkpoint import set_weights, weights
from clearhead.layers.block import Block
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.manifest import gathered
from clearhead.training.parallel import SingleProcess
from clearhead.training.passes import Batch, Loss, Objective, Passes
from clearhead.training.ranks import Group


class FullySharded(SingleProcess):
    """Blocks are put together when it is their turn, and taken apart again (FSDP; Zhao et al. 2023).

    Gradients are shared out after every batch: kept whole over several, they would take the room that is
    saved. Rank 0 keeps a plain model in main memory, which is filled to be looked at.
    """

    retries = False

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device, ranks: Group):
        self.config, self.model, self.device, self._ranks = config, model, device, ranks
        self._plain = deepcopy(model) if ranks.rank == 0 else None
        mesh = init_device_mesh(device.type, (ranks.count,))
        for module in model.modules():
            if isinstance(module, Block):
                if config.compile == "on":
                    module.compile()
                fully_shard(module, mesh=mesh)
                register_fsdp_forward_method(module, "read")
        # The outer module has what is not in blocks; tied matrices are among that, under all their names.
        self._objective = Objective(model, loss)
        fully_shard(self._objective, mesh=mesh)
        for module in self._objective.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        self._like = dict(model.named_parameters())

    def passes(self, autocast: Callable[[], AbstractContextManager]) -> Passes:
        return _ShardedPasses(self._objective, self.device, autocast)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return cast(DTensor, super().norm(gradients)).full_tensor()

    def gathered(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return gathered(weights, self._ranks)

    def place(self, path: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        like = next((self._like[name] for name in path.split("/") if name in self._like), None)
        if like is None or like.shape != size:
            return super().place(path, size, dtype)
        return torch.empty_like(like, dtype=dtype)

    def spread(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: self._spread(value, self._like.get(name)) for name, value in state.items()}

    def _spread(self, value: Any, like: Tensor | None) -> Any:
        if isinstance(value, Mapping):
            return {name: self._spread(inner, self._like.get(name, like)) for name, inner in value.items()}
        if not isinstance(value, Tensor) or isinstance(value, DTensor):
            return value
        if not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        # Every rank has read the whole tensor, so none has to be sent.
        return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

    def showing(self, weights: Mapping[str, Tensor]) -> Any:
        if self._plain is None:
            return None
        set_weights(self._plain, weights, "the weights to show")
        return self._plain.to(self.device)

    @contextmanager
    def published(self, average: MovingAverage | None) -> Iterator[Any]:
        yield self.showing(self.gathered(average.weights() if average else weights(self.model)))
        if self._plain is not None:
            self._plain.cpu()


class _ShardedPasses(Passes[Batch]):
    def __call__(self, batch: Batch) -> Tensor:
        with warnings.catch_warnings():
            # Keys and values are views; nothing in the house writes to them.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
            return super().__call__(batch)

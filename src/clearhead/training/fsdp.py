"""A model sharded over the ranks: each holds a part of every parameter."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from clearhead.accel import enabled
from clearhead.checkpoint import set_weights, weights
from clearhead.data.batch import TensorBatch
from clearhead.layers.block import Block
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.parallel import Loss, Passes, SingleProcess
from clearhead.training.ranks import Group
from clearhead.training.state_formats import FilePerRank


class _ModelWithLoss(nn.Module):
    """One module for FSDP to wrap: its parameters are gathered while the loss reads them."""

    def __init__(self, model: nn.Module, loss: Loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.loss(self.model, batch)


class FullySharded(SingleProcess):
    """Each block is gathered when it runs and freed afterwards (FSDP; Zhao et al. 2023).

    Gradients are reduced after every batch: kept whole over several, they would take the memory that sharding
    saves. Rank 0 keeps an unsharded model in main memory for evaluation.
    """

    splits_on_shortage = False

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device, ranks: Group):
        self.config, self.model, self.device, self._ranks = config, model, device, ranks
        self._unsharded = deepcopy(model) if ranks.rank == 0 else None
        mesh = init_device_mesh(device.type, (ranks.count,))
        for module in model.modules():
            if isinstance(module, Block):
                if config.compile == "on" and enabled():
                    module.compile()
                fully_shard(module, mesh=mesh)
        # The outer module has the parameters outside blocks, among them tied ones under all their names.
        self._root = _ModelWithLoss(model, loss)
        fully_shard(self._root, mesh=mesh)
        for module in self._root.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        self._like = dict(model.named_parameters())

    def passes(self, autocast: Callable[[], AbstractContextManager]) -> Passes:
        return _ShardedPasses(self._root, list(self._root.parameters()), self.device, autocast)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return cast(DTensor, super().norm(gradients)).full_tensor()

    def gather(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return FilePerRank().full(weights, self._ranks)

    def allocate(self, path: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        like = next((self._like[name] for name in path.split("/") if name in self._like), None)
        if like is None or like.shape != size:
            return super().allocate(path, size, dtype)
        return torch.empty_like(like, dtype=dtype)

    def distribute(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: self._distribute(value, self._like.get(name)) for name, value in state.items()}

    def _distribute(self, value: Any, like: Tensor | None) -> Any:
        if isinstance(value, Mapping):
            return {name: self._distribute(one, self._like.get(name, like)) for name, one in value.items()}
        if not isinstance(value, Tensor) or isinstance(value, DTensor):
            return value
        if not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        # Every rank has read the whole tensor, so nothing has to be sent.
        return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

    def model_with(self, weights: Mapping[str, Tensor]) -> Any:
        if self._unsharded is None:
            return None
        set_weights(self._unsharded, weights, "the weights to evaluate")
        return self._unsharded.to(self.device)

    @contextmanager
    def evaluation_model(self, average: MovingAverage | None) -> Iterator[Any]:
        yield self.model_with(self.gather(average.weights() if average else weights(self.model)))
        if self._unsharded is not None:
            self._unsharded.cpu()


class _ShardedPasses(Passes):
    def __call__(self, batch: TensorBatch) -> Tensor:
        with warnings.catch_warnings():
            # Keys and values are views, which no code here writes to.
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
            return super().__call__(batch)

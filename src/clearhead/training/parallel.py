"""The passes of a rank, and how ranks share a model: each holds a copy, or a shard (fsdp.py)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from clearhead.accel import enabled
from clearhead.accel.graphs import GraphedPasses
from clearhead.accel.torch_private import copy_all_
from clearhead.checkpoint import set_weights, weights
from clearhead.data.batch import TensorBatch
from clearhead.layers.block import Block, Stack
from clearhead.layers.embedding import Embedding
from clearhead.layers.patches import PatchEmbedding
from clearhead.training.averaging import MovingAverage
from clearhead.training.config import TrainingConfig
from clearhead.training.ranks import Group, Ranks
from clearhead.training.state_formats import cpu_tensor

# Numbers per message of gradients: large enough for the network, and one is packed while another is sent.
BUCKET = 1 << 24
# The method of each module that is compiled on a GPU.
COMPILED_METHODS: dict[type[nn.Module], str] = {
    Block: "forward",
    Embedding: "add_positions",
    PatchEmbedding: "forward",
    Stack: "final_norm",
}

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=TensorBatch)
Loss = Callable[[Model, Batch], Tensor]
"""The loss of a batch, summed over its tokens."""


class Passes:
    """Plain passes: `passes(batch)` adds to the gradients and returns the summed loss."""

    def __init__(
        self,
        loss: Callable[[TensorBatch], Tensor],
        parameters: list[nn.Parameter],
        device: torch.device,
        autocast: Callable[[], AbstractContextManager],
    ):
        self.loss, self.device, self.autocast = loss, device, autocast
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]

    def zero_grad(self) -> None:
        """Drops all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def release(self) -> None:
        """Frees the gradients and all other memory that is held."""
        self.zero_grad()

    def __call__(self, batch: TensorBatch) -> Tensor:
        with self.autocast():
            loss = self.loss(batch.map(lambda tensor: tensor.to(self.device, non_blocking=True)))
        loss.backward()
        return loss.detach()


class SingleProcess:
    """The model in one process."""

    splits_on_shortage = True
    """Whether a rank that is out of memory may repeat a pass in parts, independently of the others."""

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device):
        self.config, self.model, self.loss, self.device = config, model.to(device), loss, device

    def passes(self, autocast: Callable[[], AbstractContextManager]) -> Passes | GraphedPasses:
        """The forward and backward pass of this rank."""
        parameters = list(self.model.parameters())
        plain = Passes(partial(self.loss, self.model), parameters, self.device, autocast)
        if not enabled():
            return plain
        if self.device.type == "cuda":
            compiled: Callable[[], AbstractContextManager] = nullcontext
            if self.config.compile != "off":
                # The compiler takes long to import.
                from clearhead.accel.compile import CompiledRegions

                compiled = CompiledRegions(self.model, COMPILED_METHODS).active
            return GraphedPasses(plain, plain.parameters, self.device, compiled)
        if self.config.compile == "on":
            plain.loss = partial(torch.compile(self.loss, dynamic=True), self.model)
        return plain

    def reduce_gradients(self, gradients: list[Tensor]) -> list[Tensor]:
        """The gradients summed over all ranks."""
        return gradients

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """The norm of the whole gradient."""
        return get_total_norm(gradients)

    def gather(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Unsharded weights, in rank 0; a collective call."""
        return dict(weights)

    def allocate(self, path: str, size: torch.Size, dtype: torch.dtype) -> Tensor:
        """An empty tensor for one that was saved in shards, by its path in the state."""
        return cpu_tensor(path, size, dtype)

    def distribute(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state with each tensor sharded like the parameter that its path names."""
        return state

    def model_with(self, weights: Mapping[str, Tensor]) -> Any:
        """The model with other unsharded weights, in rank 0, for evaluation."""
        set_weights(self.model, weights, "the weights to evaluate")
        return self.model

    @contextmanager
    def evaluation_model(self, average: MovingAverage | None) -> Iterator[Any]:
        """The model with the weights that would be saved now, in rank 0; a collective call."""
        with average.swapped() if average else nullcontext():
            yield self.model


class DataParallel(SingleProcess):
    """Every rank has the whole model; gradients are summed over the ranks once per step.

    They are sent after the passes, not during them as in torch's DistributedDataParallel: passes can then be
    CUDA graphs, and a rank that is out of memory can repeat one. Overlap would save little as long as a step
    has thousands of tokens per rank.
    """

    def __init__(self, config: TrainingConfig, model: Any, loss: Loss, device: torch.device):
        super().__init__(config, model, loss, device)
        for weight in weights(model).values():
            dist.broadcast(weight, src=0)

    def reduce_gradients(self, gradients: list[Tensor]) -> list[Tensor]:
        sent = []
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            sent.append((bucket, flat, dist.all_reduce(flat, async_op=True)))
        for bucket, flat, work in sent:
            work.wait()
            sizes = [gradient.numel() for gradient in bucket]
            parts = [part.view_as(of) for part, of in zip(flat.split(sizes), bucket, strict=True)]
            copy_all_(bucket, parts)
        return gradients


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for gradient in gradients:
        bucket.append(gradient)
        if sum(one.numel() for one in bucket) >= BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def parallel(
    config: TrainingConfig, model: Any, loss: Loss, device: torch.device, ranks: Ranks
) -> SingleProcess:
    """The model as these ranks train it."""
    if not isinstance(ranks, Group):
        return SingleProcess(config, model, loss, device)
    if config.parallel == "data_parallel":
        return DataParallel(config, model, loss, device)
    # Imported here because it takes half a second.
    from clearhead.training.fsdp import FullySharded

    return FullySharded(config, model, loss, device, ranks)

"""One forward and backward pass over a batch."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor, nn


class Trainable(Protocol):
    """A batch, as training uses it."""

    @property
    def tokens(self) -> int: ...
    @property
    def padding(self) -> float: ...
    @property
    def static_shape(self) -> bool:
        """Whether its shape is one of a few that recur."""
        ...

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same batch with a function applied to every tensor."""
        ...

    def split(self, count: int) -> list[Self]:
        """The rows in `count` batches, or one per row if there are fewer."""
        ...


Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound=Trainable)
Loss = Callable[[Model, Batch], Tensor]
"""The loss of a batch, summed over its tokens."""


class Passes:
    """Plain passes: `passes(batch)` adds to the gradients and returns the summed loss."""

    def __init__(
        self,
        loss: Callable[[Trainable], Tensor],
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

    def __call__(self, batch: Trainable) -> Tensor:
        with self.autocast():
            loss = self.loss(batch.map(lambda tensor: tensor.to(self.device, non_blocking=True)))
        loss.backward()
        return loss.detach()

"""The loss of classifiers, with class weights and regularisers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.tasks.classification.data import LabelledBatch
from clearhead.tasks.classification.recipe import AdversarialConfig
from clearhead.training.criterion import RDropConfig

Logits = Float[Tensor, "batch labels"]
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class ClassificationLoss:
    """The loss of a batch, summed over its texts.

    It is the cross-entropy of the classes, or where a text may have several labels, the mean binary
    cross-entropy of all labels.
    """

    label_smoothing: float = 0.0
    weights: Float[Tensor, " labels"] | None = None
    """Of the texts of each class, or of the texts that have each label."""
    regulariser: RDropConfig | AdversarialConfig | None = None

    def __call__(self, model: Any, batch: LabelledBatch) -> Tensor:
        match self.regulariser:
            case None:
                return self.entropy(model(batch.ids, batch.lengths), batch.classes)
            case RDropConfig(weight=weight):
                first, second = model(_twice(batch.ids), _twice(batch.lengths)).chunk(2)
                both = self.entropy(first, batch.classes) + self.entropy(second, batch.classes)
                several = batch.classes.dim() == 2
                apart = _divergence(first, second, several) + _divergence(second, first, several)
                return both / 2 + weight / 4 * apart
            case AdversarialConfig(epsilon=epsilon):
                moved = epsilon * self._worst_direction(model, batch)
                with hooked(model.embedding, lambda x: torch.cat([x[: len(moved)], x[len(moved) :] + moved])):
                    logits = model(_twice(batch.ids), _twice(batch.lengths))
                return self.entropy(logits, _twice(batch.classes)) / 2

    def entropy(self, logits: Logits, classes: Tensor) -> Tensor:
        """The summed cross-entropy."""
        logits = logits.float()
        weights = None if self.weights is None else self.weights.to(logits.device)
        if classes.dim() == 1:
            smoothing = self.label_smoothing
            return F.cross_entropy(logits, classes, weights, reduction="sum", label_smoothing=smoothing)
        target = torch.lerp(classes.float(), torch.full_like(logits, 0.5), self.label_smoothing)
        losses = F.binary_cross_entropy_with_logits(logits, target, pos_weight=weights, reduction="none")
        return losses.mean(-1).sum()

    def _worst_direction(self, model: Any, batch: LabelledBatch) -> Tensor:
        """Where the loss grows fastest at the embeddings of each text, with the norm of these embeddings."""
        seen: list[Tensor] = []

        def watched(x: Tensor) -> Tensor:
            seen.append(x.detach().requires_grad_())
            return seen[-1]

        with torch.enable_grad(), hooked(model.embedding, watched):
            loss = self.entropy(model(batch.ids, batch.lengths), batch.classes)
        [gradient] = torch.autograd.grad(loss, seen)
        positions = torch.arange(batch.ids.shape[1], device=batch.ids.device)
        inside = (positions < batch.lengths[:, None])[:, :, None]
        x, direction = (tensor.float() * inside for tensor in (seen[0].detach(), gradient))
        size, length = (tensor.flatten(1).norm(dim=1)[:, None, None] for tensor in (x, direction))
        return (direction * (size / length.clamp_min(TINY))).to(gradient.dtype)


@contextmanager
def hooked(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The module's output is what `change` returns, inside."""

    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        return change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _divergence(first: Logits, second: Logits, multi_label: bool) -> Tensor:
    """How far the probabilities of two passes are apart (Kullback and Leibler 1951), summed over texts."""
    one, other = (_log_probabilities(logits.float(), multi_label) for logits in (first, second))
    return (one.exp() * (one - other)).sum() / one.shape[1]


def _log_probabilities(logits: Logits, multi_label: bool) -> Float[Tensor, "batch decisions options"]:
    """Of all classes in one decision, or of having or not having each label."""
    if not multi_label:
        return logits.log_softmax(-1)[:, None]
    return torch.stack([F.logsigmoid(logits), F.logsigmoid(-logits)], dim=-1)


def _twice(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor])

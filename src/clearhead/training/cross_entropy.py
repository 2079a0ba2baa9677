"""Cross-entropy over a vocabulary in chunks: all logits are never in memory at once."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.accel import kernels
from clearhead.accel.torch_private import uncompiled
from clearhead.text.tokenizer import PAD
from clearhead.training.criterion import Criterion, Views, exact


class Readout(NamedTuple):
    """The last states of a model, and the matrix and bias that turn them into logits."""

    states: Float[Tensor, "*positions width"]
    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None = None


# Rows per tile of a matrix product.
TILE = 64


@uncompiled
def cross_entropy_loss(
    states: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocabulary width"],
    labels: Int[Tensor, "*positions"],
    label_smoothing: float = 0.0,
    bias: Float[Tensor, " vocabulary"] | None = None,
    ignore_index: int = PAD,
) -> Float[Tensor, ""]:
    """The label-smoothed cross-entropy, summed over positions whose label is not `ignore_index`."""
    criterion = Criterion(label_smoothing, ignore_index=ignore_index)
    return chunked_cross_entropy(states[None], weight, labels, criterion, bias)


@uncompiled
def chunked_cross_entropy(
    states: Float[Tensor, "views *positions width"],
    weight: Float[Tensor, "vocabulary width"],
    labels: Int[Tensor, "*positions"],
    criterion: Criterion,
    bias: Float[Tensor, " vocabulary"] | None = None,
    teacher: Readout | None = None,
) -> Float[Tensor, ""]:
    """The criterion's loss, summed over the positions it does not ignore; the teacher gets no gradients."""
    states, labels = states.flatten(1, -2), labels.flatten()
    if teacher is not None:
        bias_of_teacher = None if teacher.bias is None else teacher.bias.detach()
        teacher = Readout(teacher.states.detach().flatten(0, -2), teacher.weight.detach(), bias_of_teacher)
    if states.device.type == "cpu":
        # On a GPU, counting the positions would mean to wait for it; padding goes through without effect.
        positions = (labels != criterion.ignore_index).nonzero().squeeze(1)
        states, labels = states[:, positions], labels[positions]
        teacher = teacher and teacher._replace(states=teacher.states[positions])
    if bias is None:
        bias = weight.new_zeros(())
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (states, weight, bias)):
        return _ChunkedCrossEntropy.apply(states, weight, bias, labels, criterion, teacher)  # pyright: ignore
    return _sum_over_chunks(states, weight, bias, labels, criterion, teacher, None)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes gradients in the forward pass, while a chunk's logits are in memory.

    Nearly all of the cost is then in the three products. Plain `cross_entropy` takes longer, most of all
    under bf16 autocast on a CPU, and holds all logits several times over.
    """

    @staticmethod
    def forward(ctx, states, weight, bias, labels, criterion, teacher):
        gradients = _Gradients(states, weight, bias, ctx.needs_input_grad)
        total = _sum_over_chunks(states, weight, bias, labels, criterion, teacher, gradients)
        ctx.save_for_backward(gradients.states, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx, *outer):
        gradients = (None if made is None else _scaled(made, outer[0]) for made in ctx.saved_tensors)
        return *gradients, None, None, None


def _scaled(gradient: Tensor, factor: Tensor) -> Tensor:
    if not (gradient.is_cuda and kernels.compilable()):
        return gradient * factor
    from clearhead.accel.kernels.cross_entropy import scale

    return scale(gradient, factor)


class _Gradients:
    """The gradients that chunks write or add to; None where none is needed."""

    def __init__(self, states: Tensor, weight: Tensor, bias: Tensor, needed: tuple[bool, ...]):
        self.states = torch.empty_like(states) if needed[0] else None
        self.weight = torch.zeros_like(weight, dtype=exact(weight)) if needed[1] else None
        self.bias = torch.zeros_like(bias, dtype=exact(bias)) if needed[2] else None

    def add(self, here: slice, gradients: Views, chunks: Views, weight: Tensor) -> None:
        """Adds what follows from the gradients at the logits of these chunks."""
        for view, (gradient, chunk) in enumerate(zip(gradients, chunks, strict=True)):
            if self.states is not None:
                self.states[view, here] = gradient @ weight
            if self.weight is not None:
                _add_product(self.weight, gradient.T, chunk)
            if self.bias is not None:
                self.bias += gradient.sum(0, dtype=self.bias.dtype)


def _sum_over_chunks(
    states: Float[Tensor, "views labels width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "*vocabulary"],
    labels: Int[Tensor, " labels"],
    criterion: Criterion,
    teacher: Readout | None,
    gradients: _Gradients | None,
) -> Float[Tensor, ""]:
    """The summed loss; fills in the gradients if there are any."""
    dtype = _product_dtype(weight)
    narrow = weight.to(dtype)
    teacher = teacher and teacher._replace(weight=teacher.weight.to(dtype))
    losses_and_gradients = _chunk_loss(criterion, states.device.type, dtype)
    total = torch.zeros((), dtype=exact(weight), device=states.device)
    views, positions, _ = states.shape
    rows = _rows(positions, _chunk_size(states.device) // (views * len(weight)))
    with torch.autocast(states.device.type, enabled=False):
        for start in range(0, positions, rows):
            here = slice(start, start + rows)
            chunks = [view[here].to(dtype) for view in states]
            logits = [chunk @ narrow.T for chunk in chunks]
            if bias.ndim:
                logits = [view.add_(bias) for view in logits]
            taught = teacher and teacher.states[here].to(dtype) @ teacher.weight.T
            if taught is not None and teacher is not None and teacher.bias is not None:
                taught = taught.add_(teacher.bias)
            losses, logit_gradients = losses_and_gradients(logits, labels[here], taught)
            total += losses.sum()
            if gradients is not None:
                gradients.add(here, logit_gradients, chunks, narrow)
    return total


@functools.cache
def _chunk_loss(criterion: Criterion, device: str, dtype: torch.dtype) -> Callable[..., tuple[Tensor, Views]]:
    """The implementation of the criterion for a device and the dtype of the logits."""
    if device == "cpu":
        return criterion.inplace if criterion.plain else criterion.fused
    if not kernels.compilable():
        return criterion.fused
    from clearhead.accel.kernels.cross_entropy import cross_entropy

    if not criterion.plain or dtype == torch.float64:
        return torch.compile(criterion.fused)

    def by_kernel(logits: Views, labels: Tensor, teacher: None) -> tuple[Tensor, Views]:
        return cross_entropy(logits[0], labels, criterion.label_smoothing, criterion.ignore_index), logits

    return by_kernel


def _rows(positions: int, most: int) -> int:
    """Positions per chunk: chunks of equal size, and if they are large, of whole tiles."""
    chunks = -(-positions // max(1, most))
    rows = -(-positions // max(1, chunks)) or 1
    # Of smaller chunks, the last one would lack more than one row in TILE.
    return rows if rows < TILE**2 else -(-rows // TILE) * TILE


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif _accumulates_wide(total.device.type, left.dtype):
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)  # pyright: ignore
    else:
        total.add_(left @ right)


@functools.cache
def _accumulates_wide(device: str, narrow: torch.dtype) -> bool:
    """Whether this torch can add a product of narrow numbers to a float32 sum in one call."""
    total, one = torch.zeros(1, 1, device=device), torch.ones(1, 1, dtype=narrow, device=device)
    try:
        torch.addmm(total, one, one, out_dtype=total.dtype, out=total)  # pyright: ignore
    except (RuntimeError, TypeError):
        return False
    return True


def _product_dtype(weight: Tensor) -> torch.dtype:
    """The dtype of the three products: that of autocast where it is on."""
    device = weight.device.type
    if torch.is_autocast_enabled(device) and weight.dtype == torch.float32:
        return torch.get_autocast_dtype(device)
    return weight.dtype


def _chunk_size(device: torch.device) -> int:
    """Logits per chunk. Measured: with fewer the products are slow, with more the cache is too small."""
    if device.type == "cpu":
        return 1 << 23
    # In half precision, at most a sixty-fourth of a GPU's memory.
    return min(1 << 29, torch.cuda.get_device_properties(device).total_memory >> 7)

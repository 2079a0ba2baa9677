"""The loss of a readout over a vocabulary: a walk over the places that never holds all logits at once."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.accel import kernels
from clearhead.text.tokenizer import PAD
from clearhead.training.criterion import Criterion, Views, exact


class Readout(NamedTuple):
    """The last states of a model and the matrix by which they become logits."""

    states: Float[Tensor, "*positions width"]
    weight: Float[Tensor, "vocabulary width"]


# Rows of the tiles in which matrices are multiplied.
ROUND = 64
# Chunks and chosen positions are no work for a compiler; torch.compiler.disable costs a second at import.
not_compiled = torch._disable_dynamo  # pyright: ignore[reportPrivateImportUsage]


@not_compiled
def cross_entropy_loss(
    states: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocabulary width"],
    labels: Int[Tensor, "*positions"],
    label_smoothing: float = 0.0,
    bias: Float[Tensor, " vocabulary"] | None = None,
    ignore: int = PAD,
) -> Float[Tensor, ""]:
    """The sum of the smoothed cross-entropies at positions that are not padding."""
    return readout_loss(states[None], weight, labels, Criterion(label_smoothing, ignore=ignore), bias)


@not_compiled
def readout_loss(
    states: Float[Tensor, "views *positions width"],
    weight: Float[Tensor, "vocabulary width"],
    labels: Int[Tensor, "*positions"],
    criterion: Criterion,
    bias: Float[Tensor, " vocabulary"] | None = None,
    teacher: Readout | None = None,
) -> Float[Tensor, ""]:
    """The sum of what a criterion finds at the positions that it does not ignore; no teacher learns."""
    states, labels = states.flatten(1, -2), labels.flatten()
    if teacher is not None:
        teacher = Readout(teacher.states.detach().flatten(0, -2), teacher.weight.detach())
    if states.device.type == "cpu":
        # A GPU would have to tell how many there are, and wait; there, padding passes through without effect.
        positions = (labels != criterion.ignore).nonzero().squeeze(1)
        states, labels = states[:, positions], labels[positions]
        teacher = teacher and Readout(teacher.states[positions], teacher.weight)
    if bias is None:
        bias = weight.new_zeros(())
    learned = any(tensor.requires_grad for tensor in (states, weight, bias))
    if torch.is_grad_enabled() and learned:
        return _ReadoutLoss.apply(states, weight, bias, labels, criterion, teacher)  # pyright: ignore
    return _walk(states, weight, bias, labels, criterion, teacher, None)


class _ReadoutLoss(torch.autograd.Function):
    """Gradients are made in the forward pass, while a chunk of logits is at hand.

    So the three products are nearly all of the cost. Plain `cross_entropy` takes longer, most of all under
    bf16 autocast on a processor, and holds all logits several times over.
    """

    @staticmethod
    def forward(ctx, states, weight, bias, labels, criterion, teacher):
        gradients = _Gradients(states, weight, bias, ctx.needs_input_grad)
        total = _walk(states, weight, bias, labels, criterion, teacher, gradients)
        ctx.save_for_backward(gradients.states, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx, *outer):
        gradients = (None if made is None else _scaled(made, outer[0]) for made in ctx.saved_tensors)
        return *gradients, None, None, None


def _scaled(made: Tensor, factor: Tensor) -> Tensor:
    if not (made.is_cuda and kernels.compilable()):
        return made * factor
    from clearhead.accel.kernels.cross_entropy import scaled

    return scaled(made, factor)


class _Gradients:
    """What the chunks write or add to; None where nobody asked."""

    def __init__(self, states: Tensor, weight: Tensor, bias: Tensor, needed: tuple[bool, ...]):
        self.states = torch.empty_like(states) if needed[0] else None
        self.weight = torch.zeros_like(weight, dtype=exact(weight)) if needed[1] else None
        self.bias = torch.zeros_like(bias, dtype=exact(bias)) if needed[2] else None

    def add(self, here: slice, gradients: Views, chunks: Views, weight: Tensor) -> None:
        """What follows from the gradients at the logits of chunks, which are these times the weight."""
        for view, (gradient, chunk) in enumerate(zip(gradients, chunks, strict=True)):
            if self.states is not None:
                self.states[view, here] = gradient @ weight
            if self.weight is not None:
                _add_product(self.weight, gradient.T, chunk)
            if self.bias is not None:
                self.bias += gradient.sum(0, dtype=self.bias.dtype)


def _walk(
    states: Float[Tensor, "views labels width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "*vocabulary"],
    labels: Int[Tensor, " labels"],
    criterion: Criterion,
    teacher: Readout | None,
    gradients: _Gradients | None,
) -> Float[Tensor, ""]:
    """The summed loss, chunk by chunk; fills in the gradients where there are any."""
    fast = _product_type(weight)
    narrow = weight.to(fast)
    teacher = teacher and Readout(teacher.states, teacher.weight.to(fast))
    judge = _judge(criterion, states.device.type, fast)
    total = torch.zeros((), dtype=exact(weight), device=states.device)
    views, positions, _ = states.shape
    rows = _rows(positions, _chunk_size(states.device) // (views * len(weight)))
    with torch.autocast(states.device.type, enabled=False):
        for start in range(0, positions, rows):
            here = slice(start, start + rows)
            chunks = [view[here].to(fast) for view in states]
            logits = [_logits(chunk, narrow, bias) for chunk in chunks]
            taught = teacher and teacher.states[here].to(fast) @ teacher.weight.T
            losses, logit_gradients = judge(logits, labels[here], taught)
            total += losses.sum()
            if gradients is not None:
                gradients.add(here, logit_gradients, chunks, narrow)
    return total


def _logits(chunk: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    logits = chunk @ weight.T
    return logits.add_(bias) if bias.ndim else logits


@functools.cache
def _judge(criterion: Criterion, device: str, kind: torch.dtype) -> Callable[..., tuple[Tensor, Views]]:
    """The way to losses and gradients that suits a device and the type of logits."""
    if device == "cpu":
        return criterion.sparing if criterion.plain else criterion.fused
    if not kernels.compilable():
        return criterion.fused
    from clearhead.accel.kernels.cross_entropy import judged

    if not criterion.plain or kind == torch.float64:
        return torch.compile(criterion.fused)

    def in_one(logits: Views, labels: Tensor, teacher: None) -> tuple[Tensor, Views]:
        return judged(logits[0], labels, criterion.label_smoothing, criterion.ignore), logits

    return in_one


def _rows(positions: int, most: int) -> int:
    """How many places a chunk has, such that chunks are alike, and if they are large made of whole tiles."""
    chunks = -(-positions // max(1, most))
    rows = -(-positions // max(1, chunks)) or 1
    # Of fewer, those that the last chunk then lacks would be more than one in ROUND.
    return rows if rows < ROUND**2 else -(-rows // ROUND) * ROUND


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif _adds_narrow_products(total.device.type, left.dtype):
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)  # pyright: ignore
    else:
        total.add_(left @ right)


@functools.cache
def _adds_narrow_products(device: str, narrow: torch.dtype) -> bool:
    """Whether this torch adds a product of narrow numbers to a wide sum at once, there."""
    total, one = torch.zeros(1, 1, device=device), torch.ones(1, 1, dtype=narrow, device=device)
    try:
        torch.addmm(total, one, one, out_dtype=total.dtype, out=total)  # pyright: ignore
    except (RuntimeError, TypeError):
        return False
    return True


def _product_type(weight: Tensor) -> torch.dtype:
    """The type in which the three products are taken: that of autocast where it is on."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype == torch.float32:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def _chunk_size(device: torch.device) -> int:
    """How many logits are held at once: measured; too few spoil the products, too many the cache."""
    if device.type == "cpu":
        return 1 << 23
    # Of a GPU's memory they take a sixty-fourth at most, in half precision.
    return min(1 << 29, torch.cuda.get_device_properties(device).total_memory >> 7)

"""The loss of a readout over a vocabulary: a walk over the places that never holds all logits at once."""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.text.tokenizer import PAD
from clearhead.training.criterion import Criterion, exact


# Chunks and chosen positions are no work for a compiler; torch.compiler.disable costs a second at import.
@torch._disable_dynamo  # pyright: ignore[reportPrivateImportUsage]
def smoothed_loss(
    states: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocabulary width"],
    labels: Int[Tensor, "*positions"],
    smoothing: float = 0.0,
    bias: Float[Tensor, " vocabulary"] | None = None,
    ignore: int = PAD,
) -> Float[Tensor, ""]:
    """The sum of the losses at positions that are not padding."""
    states, labels = states.flatten(0, -2), labels.flatten()
    if states.device.type == "cpu":
        # A GPU would have to tell how many there are, and wait; there, padding passes through without effect.
        places = (labels != ignore).nonzero().squeeze(1)
        states, labels = states[places], labels[places]
    if bias is None:
        bias = weight.new_zeros(())
    criterion = Criterion(smoothing, ignore)
    learned = any(tensor.requires_grad for tensor in (states, weight, bias))
    if torch.is_grad_enabled() and learned:
        return _ReadoutLoss.apply(states, weight, bias, labels, criterion)  # pyright: ignore
    return _walk(states, weight, bias, labels, criterion, None)


class _ReadoutLoss(torch.autograd.Function):
    """Gradients are made in the forward pass, while a chunk of logits is at hand.

    So the three products are nearly all of the cost. Plain `cross_entropy` takes longer, most of all under
    bf16 autocast on a processor, and holds all logits several times over.
    """

    @staticmethod
    def forward(ctx, states, weight, bias, labels, criterion):
        gradients = _Gradients(states, weight, bias, ctx.needs_input_grad)
        total = _walk(states, weight, bias, labels, criterion, gradients)
        ctx.save_for_backward(gradients.states, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx, *outer):
        return *(None if made is None else made * outer[0] for made in ctx.saved_tensors), None, None


class _Gradients:
    """What the chunks write or add to; None where nobody asked."""

    def __init__(self, states: Tensor, weight: Tensor, bias: Tensor, needed: tuple[bool, ...]):
        self.states = torch.empty_like(states) if needed[0] else None
        self.weight = torch.zeros_like(weight, dtype=exact(weight)) if needed[1] else None
        self.bias = torch.zeros_like(bias, dtype=exact(bias)) if needed[2] else None


def _walk(
    states: Float[Tensor, "labels width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "*vocabulary"],
    labels: Int[Tensor, " labels"],
    criterion: Criterion,
    gradients: _Gradients | None,
) -> Float[Tensor, ""]:
    """The summed loss, chunk by chunk; fills in the gradients where there are any."""
    fast = _product_type(weight)
    narrow = weight.to(fast)
    judge = _judge(criterion, states.device.type)
    total = torch.zeros((), dtype=exact(weight), device=states.device)
    rows = _rows(len(states), _chunk_size(states.device) // len(weight))
    with torch.autocast(states.device.type, enabled=False):
        for start in range(0, len(states), rows):
            here = slice(start, start + rows)
            chunk = states[here].to(fast)
            logits = chunk @ narrow.T
            if bias.ndim:
                logits += bias
            losses, slopes = judge(logits, labels[here])
            total += losses.sum()
            if gradients is None:
                continue
            if gradients.states is not None:
                gradients.states[here] = slopes @ narrow
            if gradients.weight is not None:
                _add_product(gradients.weight, slopes.T, chunk)
            if gradients.bias is not None:
                gradients.bias += slopes.sum(0, dtype=gradients.bias.dtype)
    return total


@functools.cache
def _judge(criterion: Criterion, device: str) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The way to losses and slopes that suits a device."""
    if device == "cpu":
        return criterion.sparing
    from torch.utils._triton import has_triton

    return torch.compile(criterion.fused) if has_triton() else criterion.fused


def _rows(places: int, most: int) -> int:
    """How many places a chunk has, such that chunks are alike: each shape is compiled for itself."""
    chunks = -(-places // max(1, most))
    return -(-places // max(1, chunks)) or 1


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
    return 1 << 23 if device.type == "cpu" else 1 << 27

"""The loss of a readout over a vocabulary: smoothed cross-entropy that never holds all logits at once."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.text.tokenizer import PAD


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
    """The sum of the losses at positions that are not padding.

    The target gives 1 - smoothing to the label and spreads smoothing over all words alike (Szegedy et al.
    2016), as torch's `label_smoothing` does.
    """
    labels = labels.flatten()
    places = (labels != ignore).nonzero().squeeze(1)
    states, labels = states.flatten(0, -2)[places], labels[places]
    if bias is None:
        bias = weight.new_zeros(())
    learned = any(tensor.requires_grad for tensor in (states, weight, bias))
    if torch.is_grad_enabled() and learned:
        return _ReadoutLoss.apply(states, weight, bias, labels, smoothing)  # pyright: ignore
    return _walk(states, weight, bias, labels, smoothing, None)


class _ReadoutLoss(torch.autograd.Function):
    """Gradients are made in the forward pass, while a chunk of logits is at hand.

    The gradient of the logits is softmax minus target, written over the logits themselves, so that the
    three products are nearly all of the cost. Plain `cross_entropy` takes longer, most of all under bf16
    autocast on a processor, and holds all logits several times over.
    """

    @staticmethod
    def forward(ctx, states, weight, bias, labels, smoothing):
        gradients = _Gradients(states, weight, bias, smoothing, ctx.needs_input_grad)
        total = _walk(states, weight, bias, labels, smoothing, gradients)
        ctx.save_for_backward(gradients.states, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx, *outer):
        return *(None if made is None else made * outer[0] for made in ctx.saved_tensors), None, None


class _Gradients:
    """What the chunks add to; None where nobody asked."""

    def __init__(
        self, states: Tensor, weight: Tensor, bias: Tensor, smoothing: float, needed: tuple[bool, ...]
    ):
        exact = torch.promote_types(weight.dtype, torch.float32)
        # The smoothed target pulls every word alike: that part is there from the start.
        pull = -smoothing / len(weight)
        self.states = torch.empty_like(states) if needed[0] else None
        self.weight = (pull * states.sum(0, dtype=exact)).repeat(len(weight), 1) if needed[1] else None
        self.bias = torch.full_like(bias, pull * len(states), dtype=exact) if needed[2] else None


def _walk(
    states: Float[Tensor, "labels width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "*vocabulary"],
    labels: Int[Tensor, " labels"],
    smoothing: float,
    gradients: _Gradients | None,
) -> Float[Tensor, ""]:
    """The summed loss, chunk by chunk; fills in the gradients where there are any."""
    exact = torch.promote_types(weight.dtype, torch.float32)
    fast = _product_type(weight)
    narrow = weight.to(fast)
    # The mean logit needs no logits: it is the state times the mean row.
    mean_row, mean_bias = weight.mean(0, dtype=exact), bias.mean(dtype=exact)
    total = torch.zeros((), dtype=exact, device=states.device)
    rows = max(1, _chunk_size(states.device) // len(weight))
    with torch.autocast(states.device.type, enabled=False):
        for start in range(0, len(states), rows):
            chunk, label = states[start : start + rows], labels[start : start + rows, None]
            narrow_chunk = chunk.to(fast)
            logits = narrow_chunk @ narrow.T
            if bias.ndim:
                logits += bias
            wanted = logits.gather(1, label).sum(dtype=exact)
            mean = (chunk.to(exact) @ mean_row).sum() + mean_bias * len(chunk)
            normaliser, slope = _normalised(logits, exact)
            total += normaliser - (1 - smoothing) * wanted - smoothing * mean
            if gradients is None:
                continue
            slope.scatter_add_(1, label, torch.full_like(label, smoothing - 1, dtype=exact))
            if gradients.bias is not None:
                gradients.bias += slope.sum(0)
            slope = slope.to(fast)
            if gradients.states is not None:
                gradients.states[start : start + rows] = slope @ narrow - smoothing * mean_row
            if gradients.weight is not None:
                _add_product(gradients.weight, slope.T, narrow_chunk)
    return total


def _normalised(
    logits: Float[Tensor, "rows vocabulary"], exact: torch.dtype
) -> tuple[Float[Tensor, ""], Float[Tensor, "rows vocabulary"]]:
    """The sum of log Σ exp over the rows, and the probabilities, which take the logits' place if they fit."""
    highest = logits.amax(1).to(exact)
    if logits.dtype == exact:
        probabilities = torch.softmax(logits, 1, out=logits)
    else:
        probabilities = torch.softmax(logits, 1, dtype=exact)
    # The highest probability is at least 1 / vocabulary, so its logarithm is safe.
    return (highest - probabilities.amax(1).log()).sum(), probabilities


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _product_type(weight: Tensor) -> torch.dtype:
    """The type in which the three products are taken: that of autocast where it is on."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype == torch.float32:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def _chunk_size(device: torch.device) -> int:
    """How many logits are held at once: measured; too few spoil the products, too many the cache."""
    return 1 << 23 if device.type == "cpu" else 1 << 27

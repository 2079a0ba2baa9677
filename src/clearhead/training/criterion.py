"""What a model is asked to lower, for rows of logits: the loss of each, and its slope at each logit."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.text.tokenizer import PAD

Logits = Float[Tensor, "rows vocabulary"]
Losses = Float[Tensor, " rows"]
Labels = Int[Tensor, " rows"]


@dataclass(frozen=True)
class Criterion:
    """Smoothed cross-entropy.

    The target gives 1 - smoothing to the label and spreads smoothing over all words alike (Szegedy et al.
    2016), as torch's `label_smoothing` does. A row whose label is `ignore` has neither loss nor slope.
    """

    smoothing: float = 0.0
    ignore: int = PAD

    def fused(self, logits: Logits, labels: Labels) -> tuple[Losses, Logits]:
        """Losses and slopes as one formula that a compiler can turn into a kernel or two."""
        logs = torch.log_softmax(logits, -1, dtype=exact(logits))
        target = self._target(labels, logits.shape[-1], logs.dtype)
        kept = (labels != self.ignore).to(logs.dtype)
        losses = -(target * logs).sum(-1) * kept
        slopes = (logs.exp() - target) * kept[:, None]
        return losses, slopes.to(logits.dtype)

    def sparing(self, logits: Logits, labels: Labels) -> tuple[Losses, Logits]:
        """The same step by step, with few walks over the logits, whose place the slopes take if they can.

        No label may be one to ignore.
        """
        slopes, labels = logits.to(exact(logits)), labels[:, None]
        wanted, highest = slopes.gather(-1, labels), slopes.amax(-1, keepdim=True)
        above = self.smoothing * (wanted - slopes.mean(-1, keepdim=True)) if self.smoothing else 0.0
        torch.softmax(slopes, -1, out=slopes)
        probability = slopes.gather(-1, labels)
        losses = above - probability.log()
        if probability.amin() < torch.finfo(slopes.dtype).tiny:
            # The highest probability is at least 1 / vocabulary, so its logarithm is safe.
            losses = above + highest - wanted - slopes.amax(-1, keepdim=True).log()
        if self.smoothing:
            slopes -= self.smoothing / slopes.shape[-1]
        slopes.scatter_add_(-1, labels, torch.full_like(wanted, self.smoothing - 1))
        return losses.squeeze(-1), slopes.to(logits.dtype)

    def _target(self, labels: Labels, vocabulary: int, kind: torch.dtype) -> Logits:
        words = torch.arange(vocabulary, device=labels.device)
        return self.smoothing / vocabulary + (1 - self.smoothing) * (words == labels[:, None]).to(kind)


def exact(tensor: Tensor) -> torch.dtype:
    """The type in which sums are taken."""
    return torch.promote_types(tensor.dtype, torch.float32)

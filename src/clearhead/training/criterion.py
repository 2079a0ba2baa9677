"""The training criterion: the loss of each row of logits, and its gradient at each logit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from clearhead.config import Settings
from clearhead.text.tokenizer import PAD

Rows = Float[Tensor, "rows vocabulary"]
Losses = Float[Tensor, " rows"]
Labels = Int[Tensor, " rows"]
Views = Sequence[Rows]
"""The same positions of one or two forward passes."""


class RDropConfig(Settings):
    """Two passes with different dropout masks must agree: R-Drop (Liang et al. 2021).

    The loss is half of the paper's, to be of the size of a loss without it: the mean of both cross-entropies,
    plus half of `weight` times the mean of both divergences.
    """

    kind: Literal["rdrop"] = "rdrop"
    weight: Annotated[float, Field(ge=0)] = 5.0


class SimCutConfig(Settings):
    """A pass over sentences with some tokens cut must agree with the full pass: SimCut (Gao et al. 2022).

    The loss is the cross-entropy of the full sentences, plus `weight` times the divergence of the cut ones
    from them; gradients flow to both.
    """

    kind: Literal["simcut"] = "simcut"
    weight: Annotated[float, Field(ge=0)] = 3.0
    cut: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Fraction of tokens that are cut, on both sides."""


RegulariserConfig = Annotated[RDropConfig | SimCutConfig, Field(discriminator="kind")]


@dataclass(frozen=True)
class Criterion:
    """Label-smoothed cross-entropy, optionally with a regulariser that compares two views of each sentence.

    The target gives 1 - label_smoothing to the label and spreads the rest evenly over all tokens (Szegedy et
    al. 2016), as torch's `label_smoothing` does. A teacher's probabilities make up `teacher_weight` of the
    target. Rows whose label is `ignore_index` have neither loss nor gradient.
    """

    label_smoothing: float = 0.0
    regulariser: RDropConfig | SimCutConfig | None = None
    teacher_weight: float = 0.0
    ignore_index: int = PAD

    @property
    def views(self) -> int:
        """The number of forward passes per sentence."""
        return 2 if self.regulariser else 1

    @property
    def plain(self) -> bool:
        """Whether there is one view and no teacher."""
        return not self.regulariser and not self.teacher_weight

    def fused(self, logits: Views, labels: Labels, teacher: Rows | None = None) -> tuple[Losses, Views]:
        """Losses and gradients as one formula that a compiler can turn into a kernel."""
        wide = [view.to(exact(view)) for view in logits]
        logs = [view.log_softmax(-1) for view in wide]
        target = self._target(labels, logs[0])
        losses = [self._cross_entropy(view, log, labels) for view, log in zip(wide, logs, strict=True)]
        if teacher is not None:
            taught = teacher.to(logs[0].dtype).log_softmax(-1)
            divergences = [_divergence(taught, log)[0] for log in logs]
            pairs = zip(losses, divergences, strict=True)
            losses = [torch.lerp(*pair, self.teacher_weight) for pair in pairs]
            target = torch.lerp(target, taught.exp(), self.teacher_weight)
        gradients = [log.exp() - target for log in logs]
        match self.regulariser:
            case None:
                loss = losses[0]
            case RDropConfig(weight=weight):
                share = weight / 4
                forward, forward_p, forward_q = _divergence(*logs)
                reverse, reverse_p, reverse_q = _divergence(*logs[::-1])
                loss = (losses[0] + losses[1]) / 2 + share * (forward + reverse)
                gradients[0] = gradients[0] / 2 + share * (forward_p + reverse_q)
                gradients[1] = gradients[1] / 2 + share * (reverse_p + forward_q)
            case SimCutConfig(weight=weight):
                divergence, full, cut = _divergence(*logs)
                loss = losses[0] + weight * divergence
                gradients = [gradients[0] + weight * full, weight * cut]
        kept = (labels != self.ignore_index).to(loss.dtype)
        return loss * kept, [(gradient * kept[:, None]).to(logits[0].dtype) for gradient in gradients]

    def inplace(self, logits: Views, labels: Labels, teacher: None = None) -> tuple[Losses, Views]:
        """The same for a plain criterion, step by step, with few passes over the logits.

        The gradients overwrite the logits where dtypes allow. No label may be `ignore_index`.
        """
        gradients, labels = logits[0].to(exact(logits[0])), labels[:, None]
        wanted, highest = gradients.gather(-1, labels), gradients.amax(-1, keepdim=True)
        smoothed = 0.0
        if self.label_smoothing:
            smoothed = self.label_smoothing * (wanted - gradients.mean(-1, keepdim=True))
        torch.softmax(gradients, -1, out=gradients)
        probability = gradients.gather(-1, labels)
        losses = smoothed - probability.log()
        if probability.amin() < torch.finfo(gradients.dtype).tiny:
            # The highest probability is at least 1 / vocabulary, so its logarithm is safe.
            losses = smoothed + highest - wanted - gradients.amax(-1, keepdim=True).log()
        if self.label_smoothing:
            gradients -= self.label_smoothing / gradients.shape[-1]
        gradients.scatter_add_(-1, labels, torch.full_like(wanted, self.label_smoothing - 1))
        return losses.squeeze(-1), [gradients.to(logits[0].dtype)]

    def _cross_entropy(self, logits: Rows, logs: Rows, labels: Labels) -> Losses:
        """-Σ target log p, using the form of the target to save a pass over the logits."""
        labels = labels.clamp_min(0)[:, None]
        wanted, logit = logs.gather(-1, labels).squeeze(-1), logits.gather(-1, labels).squeeze(-1)
        # Logit and log-probability of a token differ by the same amount for all tokens.
        mean = logits.mean(-1) - (logit - wanted)
        return -(1 - self.label_smoothing) * wanted - self.label_smoothing * mean

    def _target(self, labels: Labels, like: Rows) -> Rows:
        smoothing, vocabulary = self.label_smoothing, like.shape[-1]
        is_label = torch.arange(vocabulary, device=labels.device) == labels[:, None]
        return smoothing / vocabulary + (1 - smoothing) * is_label.to(like.dtype)


def exact(tensor: Tensor) -> torch.dtype:
    """The dtype of sums: at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _divergence(first: Rows, second: Rows) -> tuple[Losses, Rows, Rows]:
    """Σ p (log p - log q) of log-probabilities (Kullback and Leibler 1951), and its gradients at both."""
    p, ratio = first.exp(), first - second
    divergence = (p * ratio).sum(-1)
    return divergence, p * (ratio - divergence[:, None]), second.exp() - p

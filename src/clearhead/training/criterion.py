"""What a model is asked to lower, for rows of logits: the loss of each, and its gradient at each logit."""

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
"""The same places of two passes, or of one."""
Strength = Annotated[float, Field(ge=0)]


class RDropConfig(Settings):
    """Two passes, each with a dropout of its own, must agree: R-Drop (Liang et al. 2021).

    The loss is half of the paper's, so that its size is that of a loss without: the mean of both
    cross-entropies, and half of alpha times the mean of both divergences.
    """

    kind: Literal["rdrop"] = "rdrop"
    weight: Strength = 5.0


class SimCutConfig(Settings):
    """A pass over sentences with some tokens cut out must agree with one over all: SimCut (Gao et al. 2022).

    The loss is the cross-entropy of the whole sentences, and alpha times the divergence of the cut ones from
    them; both learn from it.
    """

    kind: Literal["simcut"] = "simcut"
    weight: Strength = 3.0
    cut: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """the share of tokens that are cut, on either side"""


class DistillationConfig(Settings):
    """A trained model is a teacher, token by token (Hinton et al. 2015; Kim and Rush 2016).

    The loss is 1 - weight times the cross-entropy with the labels, and weight times the divergence from the
    teacher, whose probabilities are those of evaluation.
    """

    teacher: str
    """the folder of a model; its tokenizer is taken over"""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5


RegulariserConfig = Annotated[RDropConfig | SimCutConfig, Field(discriminator="kind")]


@dataclass(frozen=True)
class Criterion:
    """Smoothed cross-entropy, and the regulariser that compares two views of each sentence.

    The target gives 1 - smoothing to the label and spreads smoothing over all tokens alike (Szegedy et al.
    2016), as torch's `label_smoothing` does. Where there is a teacher, its probabilities are a share of the
    target, `taught`. A row whose label is `ignore` has neither loss nor gradient.
    """

    label_smoothing: float = 0.0
    regulariser: RDropConfig | SimCutConfig | None = None
    taught: float = 0.0
    ignore: int = PAD

    @property
    def views(self) -> int:
        """How many passes over each sentence are compared."""
        return 2 if self.regulariser else 1

    @property
    def plain(self) -> bool:
        """Whether there is one view, and no teacher."""
        return not self.regulariser and not self.taught

    def fused(self, logits: Views, labels: Labels, teacher: Rows | None = None) -> tuple[Losses, Views]:
        """Losses and gradients as one formula that a compiler can turn into a kernel."""
        wide = [view.to(exact(view)) for view in logits]
        logs = [view.log_softmax(-1) for view in wide]
        target = self._target(labels, logs[0])
        losses = [self._entropy(view, log, labels) for view, log in zip(wide, logs, strict=True)]
        if teacher is not None:
            taught = teacher.to(logs[0].dtype).log_softmax(-1)
            apart = [_divergence(taught, log)[0] for log in logs]
            losses = [torch.lerp(*both, self.taught) for both in zip(losses, apart, strict=True)]
            target = torch.lerp(target, taught.exp(), self.taught)
        gradients = [log.exp() - target for log in logs]
        match self.regulariser:
            case None:
                loss = losses[0]
            case RDropConfig(weight=weight):
                loss, gradients = _rdrop(losses, gradients, logs, weight)
            case SimCutConfig(weight=weight):
                loss, gradients = _simcut(losses, gradients, logs, weight)
        kept = (labels != self.ignore).to(loss.dtype)
        return loss * kept, [(gradient * kept[:, None]).to(logits[0].dtype) for gradient in gradients]

    def sparing(self, logits: Views, labels: Labels, teacher: None = None) -> tuple[Losses, Views]:
        """The same step by step for a plain criterion, with few walks over the logits.

        The gradients take the logits' place if they can. No label may be one to ignore.
        """
        gradients, labels = logits[0].to(exact(logits[0])), labels[:, None]
        wanted, highest = gradients.gather(-1, labels), gradients.amax(-1, keepdim=True)
        above = (
            self.label_smoothing * (wanted - gradients.mean(-1, keepdim=True))
            if self.label_smoothing
            else 0.0
        )
        torch.softmax(gradients, -1, out=gradients)
        probability = gradients.gather(-1, labels)
        losses = above - probability.log()
        if probability.amin() < torch.finfo(gradients.dtype).tiny:
            # The highest probability is at least 1 / vocabulary, so its logarithm is safe.
            losses = above + highest - wanted - gradients.amax(-1, keepdim=True).log()
        if self.label_smoothing:
            gradients -= self.label_smoothing / gradients.shape[-1]
        gradients.scatter_add_(-1, labels, torch.full_like(wanted, self.label_smoothing - 1))
        return losses.squeeze(-1), [gradients.to(logits[0].dtype)]

    def _entropy(self, logits: Rows, logs: Rows, labels: Labels) -> Losses:
        """-Σ target log p, from what is known of the target: one walk over the logits less."""
        labels = labels.clamp_min(0)[:, None]
        wanted, logit = logs.gather(-1, labels).squeeze(-1), logits.gather(-1, labels).squeeze(-1)
        # Every log-probability is so much below its logit as that of the label is.
        mean = logits.mean(-1) - (logit - wanted)
        return -(1 - self.label_smoothing) * wanted - self.label_smoothing * mean

    def _target(self, labels: Labels, like: Rows) -> Rows:
        vocabulary = like.shape[-1]
        tokens = torch.arange(vocabulary, device=labels.device)
        return self.label_smoothing / vocabulary + (1 - self.label_smoothing) * (
            tokens == labels[:, None]
        ).to(like.dtype)


def exact(tensor: Tensor) -> torch.dtype:
    """The type in which sums are taken."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _rdrop(losses: list[Losses], gradients: Views, logs: Views, weight: float) -> tuple[Losses, list[Rows]]:
    there, away, near = _divergence(*logs)
    back, away_two, near_two = _divergence(*logs[::-1])
    share = weight / 4
    return (losses[0] + losses[1]) / 2 + share * (there + back), [
        gradients[0] / 2 + share * (away + near_two),
        gradients[1] / 2 + share * (away_two + near),
    ]


def _simcut(losses: list[Losses], gradients: Views, logs: Views, weight: float) -> tuple[Losses, list[Rows]]:
    apart, whole, cut = _divergence(*logs)
    return losses[0] + weight * apart, [gradients[0] + weight * whole, weight * cut]


def _divergence(first: Rows, second: Rows) -> tuple[Losses, Rows, Rows]:
    """Σ p (log p - log q) of log-probabilities (Kullback and Leibler 1951), and its gradients at both logits."""
    p, ratio = first.exp(), first - second
    apart = (p * ratio).sum(-1)
    return apart, p * (ratio - apart[:, None]), second.exp() - p

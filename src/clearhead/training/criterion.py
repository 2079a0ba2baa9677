"""What a model is asked to lower, for rows of logits: the loss of each, and its slope at each logit."""

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
    alpha: Strength = 5.0


class SimCutConfig(Settings):
    """A pass over sentences with some words cut out must agree with one over all: SimCut (Gao et al. 2022).

    The loss is the cross-entropy of the whole sentences, and alpha times the divergence of the cut ones from
    them; both learn from it.
    """

    kind: Literal["simcut"] = "simcut"
    alpha: Strength = 3.0
    cut: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """the share of words that are cut, on either side"""


class DistillationConfig(Settings):
    """A trained model is a teacher, word by word (Hinton et al. 2015; Kim and Rush 2016).

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

    The target gives 1 - smoothing to the label and spreads smoothing over all words alike (Szegedy et al.
    2016), as torch's `label_smoothing` does. Where there is a teacher, its probabilities are a share of the
    target, `taught`. A row whose label is `ignore` has neither loss nor slope.
    """

    smoothing: float = 0.0
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
        """Losses and slopes as one formula that a compiler can turn into a kernel."""
        logs = [torch.log_softmax(view, -1, dtype=exact(view)) for view in logits]
        target, known = self._target(labels, logs[0]), 0.0
        if teacher is not None:
            taught = torch.log_softmax(teacher, -1, dtype=logs[0].dtype)
            target = (1 - self.taught) * target + self.taught * taught.exp()
            # What the teacher is unsure of is no part of the divergence from it.
            known = self.taught * (taught.exp() * taught).sum(-1)
        match self.regulariser:
            case None:
                losses, *slopes = _cross_entropy(logs[0], target)
            case RDropConfig(alpha=alpha):
                losses, *slopes = _rdrop(logs[0], logs[1], target, alpha)
            case SimCutConfig(alpha=alpha):
                losses, *slopes = _simcut(logs[0], logs[1], target, alpha)
        kept = (labels != self.ignore).to(losses.dtype)
        return (losses + known) * kept, [(slope * kept[:, None]).to(logits[0].dtype) for slope in slopes]

    def sparing(self, logits: Views, labels: Labels, teacher: None = None) -> tuple[Losses, Views]:
        """The same step by step for a plain criterion, with few walks over the logits.

        The slopes take the logits' place if they can. No label may be one to ignore.
        """
        slopes, labels = logits[0].to(exact(logits[0])), labels[:, None]
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
        return losses.squeeze(-1), [slopes.to(logits[0].dtype)]

    def _target(self, labels: Labels, like: Rows) -> Rows:
        vocabulary = like.shape[-1]
        words = torch.arange(vocabulary, device=labels.device)
        return self.smoothing / vocabulary + (1 - self.smoothing) * (words == labels[:, None]).to(like.dtype)


def exact(tensor: Tensor) -> torch.dtype:
    """The type in which sums are taken."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _rdrop(first: Rows, second: Rows, target: Rows, alpha: float) -> tuple[Losses, Rows, Rows]:
    one, slope_one = _cross_entropy(first, target)
    two, slope_two = _cross_entropy(second, target)
    there, away, near = _divergence(first, second)
    back, away_two, near_two = _divergence(second, first)
    share = alpha / 4
    return (
        (one + two) / 2 + share * (there + back),
        slope_one / 2 + share * (away + near_two),
        slope_two / 2 + share * (away_two + near),
    )


def _simcut(whole: Rows, cut: Rows, target: Rows, alpha: float) -> tuple[Losses, Rows, Rows]:
    entropy, slope = _cross_entropy(whole, target)
    apart, whole_slope, cut_slope = _divergence(whole, cut)
    return entropy + alpha * apart, slope + alpha * whole_slope, alpha * cut_slope


def _cross_entropy(logs: Rows, target: Rows) -> tuple[Losses, Rows]:
    """-Σ target log p for log-probabilities, and its slope at their logits."""
    return -(target * logs).sum(-1), logs.exp() - target


def _divergence(first: Rows, second: Rows) -> tuple[Losses, Rows, Rows]:
    """Σ p (log p - log q) of log-probabilities (Kullback and Leibler 1951), and its slopes at both logits."""
    p, ratio = first.exp(), first - second
    apart = (p * ratio).sum(-1)
    return apart, p * (ratio - apart[:, None]), second.exp() - p

"""The second-order model with skips: pairs of words vote for the next one, and a mask selects the votes."""

from math import inf

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.data.ngrams import NgramCounts
from clearhead.errors import ModelError
from clearhead.models.backoff import Probabilities, Smoothing, discounts, entries, sums
from clearhead.text.tokenizer import BOS, PAD

Recent = Int[Tensor, "rows words"]
"""The last words of each row, the most recent one last."""


class SkipConfig(Settings):
    """Features of the form "the most recent word, and some word before it"."""

    reach: int = Field(default=6, ge=1, le=64)
    """How far before the most recent word the other one may be, in words of the same sentence."""
    min_information: float | None = Field(default=None, ge=0)
    """Masks features with less than this many nats of information beyond the most recent word.
    Default: no mask; every feature votes."""


class SkipTable(nn.Module):
    """What follows each feature (recent word, earlier word): a row of votes.

    The prediction is the mean of the rows of all active features; a selective mask of zeros and ones over
    the features makes it attention: the recent word is the query, and earlier words are the keys.
    """

    keys: Tensor
    """`(recent * vocabulary + earlier) * vocabulary + next`, in sorted order."""
    counts: Tensor
    features: Tensor
    """`recent * vocabulary + earlier` of each feature, in sorted order."""
    first: Tensor
    share: Tensor
    weight: Tensor
    information: Tensor
    """What a feature adds to its recent word: the KL divergence of its row from the mean row, in nats."""
    mask: Tensor
    """1 for the features that may vote, 0 for those that are masked."""

    def __init__(self, config: SkipConfig, vocabulary: int, smoothing: Smoothing):
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.smoothing: Smoothing = smoothing
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int32))
        for name in ("features", "first", "share", "weight", "information", "mask"):
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def fill(self, counts: NgramCounts) -> None:
        self.keys = torch.from_numpy(counts.keys)
        self.counts = torch.from_numpy(counts.counts).int()

    def derive(self, location: str) -> None:
        """Computes rows and mask from the counts; raises ModelError if the counts are damaged."""
        keys, counts, vocabulary = self.keys, self.counts.double(), self.vocabulary
        ordered = bool((keys[1:] > keys[:-1]).all()) and len(keys) == len(counts) > 0
        if not ordered or keys[0] < 0 or keys[-1] >= vocabulary**3 or counts.min() < 1:
            raise ModelError(
                f"{location}: the table of skips is damaged: its keys are not in order or its counts below "
                "1; copy it again"
            )
        self.features, row = torch.unique_consecutive(keys // vocabulary, return_inverse=True)
        size = len(self.features)
        self.first = torch.searchsorted(row, torch.arange(size + 1, device=keys.device))
        taken = discounts(self.counts, self.smoothing).to(keys.device)[self.counts.clamp(max=3)]
        total = sums(row, counts, size)
        self.share = (counts - taken) / total[row]
        self.weight = sums(row, taken, size) / total
        # The mean row of the most recent word, weighted by the counts of its features.
        recent, word = self.features[row] // vocabulary, keys % vocabulary
        pair, index = torch.unique(recent * vocabulary + word, return_inverse=True)
        mean = sums(index, counts, len(pair))[index] / sums(recent, counts, vocabulary)[recent]
        frequency = counts / total[row]
        self.information = sums(row, frequency * (frequency / mean).log(), size)
        self.mask = (self.information >= (self.config.min_information or -inf)).double()

    def words(self) -> Int[Tensor, "features 2"]:
        """The earlier and the recent word of each feature."""
        return torch.stack([self.features % self.vocabulary, self.features // self.vocabulary], 1)

    def matrix(self, lower: Float[Tensor, "features vocabulary"]) -> Float[Tensor, "features vocabulary"]:
        """The row of votes of every feature; `lower` predicts from its recent word alone."""
        row = torch.repeat_interleave(self.first.diff())
        words = (row, self.keys % self.vocabulary)
        return (self.weight[:, None] * lower).index_put(words, self.share, accumulate=True)

    def activities(self, recent: Recent) -> tuple[Int[Tensor, "rows reach"], Bool[Tensor, "rows reach"]]:
        """The feature of each earlier word, and whether it is active: seen in training, and not masked."""
        earlier, last = recent[:, :-1], recent[:, -1:]
        ended = (recent == BOS).flip(1).cumsum(1).flip(1)[:, :-1] > 0
        # A word that occurs again later is the same feature.
        again = (earlier[:, :, None] == earlier[:, None, :]).triu(1).any(2)
        wanted = last * self.vocabulary + earlier
        at = torch.searchsorted(self.features, wanted).clamp_(max=len(self.features) - 1)
        found = (self.features[at] == wanted) & ~ended & ~again & (earlier != PAD)
        return at, found & (self.mask[at] > 0)

    def vote(self, lower: Probabilities, recent: Recent) -> Probabilities:
        """The mean of the rows of the active features; `lower` where none is active."""
        feature, active = self.activities(recent)
        voters = active.sum(1)
        row, slot = active.nonzero(as_tuple=True)
        chosen = feature[row, slot]
        vote, at = entries(self.first, chosen)
        weight = sums(row, self.weight[chosen], len(lower))
        summed = weight[:, None] * lower
        words = (row[vote], self.keys[at] % self.vocabulary)
        summed = summed.index_put(words, self.share[at], accumulate=True)
        return torch.where(voters[:, None] > 0, summed / voters.clamp(min=1)[:, None], lower)

    def score(
        self, lower: Float[Tensor, " rows"], recent: Recent, words: Int[Tensor, " rows"]
    ) -> Float[Tensor, " rows"]:
        """The probability of one word per row; `lower` are those by the model without skips."""
        feature, active = self.activities(recent)
        keys = self.features[feature] * self.vocabulary + words[:, None]
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        share = torch.where(self.keys[at] == keys, self.share[at], 0.0)
        votes = torch.where(active, share + self.weight[feature] * lower[:, None], 0.0).sum(1)
        voters = active.sum(1)
        return torch.where(voters > 0, votes / voters.clamp(min=1), lower)

"""A cache of the words used recently, which are likely to be used again (Kuhn and De Mori 1990)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from clearhead.config import Settings
from clearhead.errors import ModelError
from clearhead.models.backoff import Probabilities
from clearhead.models.skips import Recent
from clearhead.text.tokenizer import BOS, PAD

Text = Int[Tensor, " positions"]
# A word that is this many half-lives old counts less than a thousandth.
HALF_LIVES = 10
# Half-life and weights without validation text to tune them on.
UNTUNED = (100.0, 0.1, 0.1)
# 2 to this power is still a double.
MAX_HALF_LIVES = 500


class CacheConfig(Settings):
    """Interpolates the model with a cache of recent words, and of words that followed the same word."""

    half_life: float | None = Field(default=None, gt=0, le=10_000)
    """The number of words after which a word in the cache counts half. Default: tuned on validation text."""
    unigram: float | None = Field(default=None, ge=0, lt=1)
    """The weight of all recent words. Default: tuned on validation text."""
    bigram: float | None = Field(default=None, ge=0, lt=1)
    """The weight of words that recently followed the most recent one. Default: tuned on validation text."""

    @property
    def weights(self) -> tuple[float, float] | None:
        return None if self.unigram is None or self.bigram is None else (self.unigram, self.bigram)

    @model_validator(mode="after")
    def _check_weights(self) -> "CacheConfig":
        if (self.unigram is None) != (self.bigram is None):
            raise ValueError("unigram and bigram are weights of one mixture; set both or neither")
        if self.weights and sum(self.weights) >= 1:
            raise ValueError("unigram and bigram leave nothing to the model; lower them")
        return self


class WordCache(nn.Module):
    """A mixture of a model with two caches; where a cache is empty, the model has its weight."""

    settings: Tensor
    """Half-life, weight of the unigram cache, weight of the bigram cache."""

    def __init__(self, config: CacheConfig):
        super().__init__()
        self.config = config
        chosen = (config.half_life or UNTUNED[0], *(config.weights or UNTUNED[1:]))
        self.register_buffer("settings", torch.tensor(chosen, dtype=torch.double))

    @property
    def span(self) -> int:
        """The number of tokens that the cache looks back."""
        return int(HALF_LIVES * float(self.settings[0])) + 1

    def check(self, location: str) -> None:
        half_life, *weights = self.settings.tolist() or (0.0,)
        if len(weights) != 2 or not (0 < half_life <= 10_000 and min(weights) >= 0 and sum(weights) < 1):
            raise ModelError(f"{location}: the settings of the cache are damaged; copy it again")

    def mix(self, model: Probabilities, recent: Recent) -> Probabilities:
        """The mixture for the next word of each row; `recent` are its last `span` + 1 tokens."""
        events, before, last = recent[:, 1:], recent[:, :-1], recent[:, -1:]
        age = torch.arange(events.shape[1], 0, -1, device=recent.device)
        decay = torch.exp2(-age / self.settings[0]).expand(len(events), -1)
        decay = torch.where((events != BOS) & (events != PAD), decay, 0.0)
        unigram, bigram = self.settings[1:]
        found = (1 - unigram - bigram) * model
        for share, each in ((unigram, decay), (bigram, torch.where(before == last, decay, 0.0))):
            cache = torch.zeros_like(model).scatter_add_(1, events, each)
            total = each.sum(1, keepdim=True)
            found = found + share * torch.where(total > 0, cache / total.clamp(min=1e-300), model)
        return found

    def parts(
        self, model: Float[Tensor, " positions"], text: Text, half_life: float
    ) -> Float[Tensor, "positions 3"]:
        """For each token of a text: its probability by the model, and by both caches in place of it."""
        span = int(HALF_LIVES * half_life) + 1
        before = torch.cat([text.new_full((1,), PAD), text[:-1]])
        all_words = _decayed_sum((text != BOS).double(), half_life, span)
        size = int(text.max()) + 1
        followed = torch.where(text == BOS, -1, before)
        found = [model]
        for keys, total in (
            (torch.where(text == BOS, -1, text), all_words),
            (torch.where(text == BOS, -1, before * size + text), _decayed(followed, half_life, span)),
        ):
            cache = _decayed(keys, half_life, span)
            found.append(torch.where(total > 0, cache / total.clamp(min=1e-300), model))
        return torch.stack(found, 1)

    def score(self, model: Float[Tensor, " positions"], text: Text) -> Float[Tensor, " positions"]:
        """The probability of each token of a text from those before it."""
        half_life, unigram, bigram = self.settings.tolist()
        mixture = torch.tensor([1 - unigram - bigram, unigram, bigram], dtype=torch.double)
        return self.parts(model, text, half_life) @ mixture.to(text.device)


def _decayed_sum(
    events: Float[Tensor, " positions"], half_life: float, span: int
) -> Float[Tensor, " positions"]:
    """For each position, the sum of the events before it, each counted by its age."""
    parts, carried = [], events.new_zeros(())
    # In parts, because the decay of a long text is no double.
    for part in events.split(max(1, int(MAX_HALF_LIVES * half_life))):
        growth = torch.exp2(torch.arange(len(part), device=events.device).double() / half_life)
        sums = (part * growth).cumsum(0)
        parts.append((F.pad(sums, (1, 0))[:-1] + carried) / growth)
        carried = (sums[-1] + carried) / growth[-1] * 2 ** (-1 / half_life)
    found = torch.cat(parts)
    return found - 2 ** (-span / half_life) * F.pad(found, (span, 0))[: len(found)]


def _decayed(keys: Text, half_life: float, span: int) -> Float[Tensor, " positions"]:
    """For each position, the earlier ones with the same key, each counted by its age; -1 is no key."""
    order = torch.argsort(keys, stable=True)
    position, key = order, keys[order]
    found = torch.zeros(len(keys), dtype=torch.double, device=keys.device)
    here = torch.arange(len(keys), device=keys.device)[key >= 0]
    for back in range(1, span + 1):
        here = here[here >= back]
        age = position[here] - position[here - back]
        near = (key[here] == key[here - back]) & (age <= span)
        here, age = here[near], age[near]
        if not len(here):
            break
        found.index_add_(0, position[here], torch.exp2(-age.double() / half_life))
    return found

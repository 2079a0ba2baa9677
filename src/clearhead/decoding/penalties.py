"""Adjustments of a model's probabilities: length, repetition, forced tokens."""

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.decoding.step import Adjust, Logits, Rows
from clearhead.errors import SettingsError

# Far beyond useful values, and logits stay finite.
MAX_REPETITION_PENALTY = 100


def length_normalizer(length: int, length_penalty: float) -> float:
    """((5 + length) / 6)^length_penalty for a length that includes </s>; divides scores (Wu et al. 2016)."""
    return ((5 + length) / 6) ** length_penalty


def repetition_penalty(penalty: float) -> Adjust:
    """Makes tokens that were used already less likely, for a penalty above 1 (Keskar et al. 2019)."""
    if not 1 / MAX_REPETITION_PENALTY <= penalty <= MAX_REPETITION_PENALTY:
        raise SettingsError(
            f"repetition_penalty: {penalty} should be from {1 / MAX_REPETITION_PENALTY} to "
            f"{MAX_REPETITION_PENALTY} (1 changes nothing)"
        )

    def adjust(logits: Logits, tokens: Int[Tensor, "rows tokens"]) -> Logits:
        used = logits.gather(1, tokens)
        return logits.scatter(1, tokens, torch.where(used > 0, used / penalty, used * penalty))

    return adjust


def no_repeat_ngrams(size: int) -> Adjust:
    """Forbids every token that would repeat an n-gram of `size` tokens (Paulus et al. 2018)."""
    if size < 1:
        raise SettingsError(f"no_repeat_ngrams: {size} should be at least 1")

    def adjust(logits: Logits, tokens: Int[Tensor, "rows tokens"]) -> Logits:
        length = tokens.shape[1]
        if length < size:
            return logits
        ngrams = tokens.unfold(1, size, 1)
        recent = tokens[:, length - size + 1 :].unsqueeze(1)
        rows, positions = (ngrams[..., :-1] == recent).all(-1).nonzero(as_tuple=True)
        return logits.index_put((rows, ngrams[rows, positions, -1]), logits.new_tensor(-torch.inf))

    return adjust


def force(log_probs: Logits, tokens: Rows) -> Logits:
    """Leaves only the given token possible, at its own log-probability; -1 leaves a row free."""
    choices = torch.arange(log_probs.shape[1], device=tokens.device)
    allowed = (tokens < 0).unsqueeze(1) | (choices == tokens.unsqueeze(1))
    return log_probs.masked_fill(~allowed, -torch.inf)

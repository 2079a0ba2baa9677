"""What bends a search away from the bare probabilities: length, repetition, forced tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding.step import Adjust
from clearhead.errors import SettingsError

# Far beyond use; logits stay finite.
LARGEST_STRENGTH = 100


def length_normalizer(length: int, length_penalty: float) -> float:
    """What the log-probability of so many tokens, </s> counted, is divided by (Wu et al. 2016)."""
    return ((5 + length) / 6) ** length_penalty


def repetition_penalty(strength: float, asked_by: str = "repetition_penalty") -> Adjust:
    """Makes tokens that were used already less likely, for a strength above 1 (Keskar et al. 2019)."""
    if not 1 / LARGEST_STRENGTH <= strength <= LARGEST_STRENGTH:
        raise SettingsError(
            f"{asked_by}: {strength} should be from {1 / LARGEST_STRENGTH} to {LARGEST_STRENGTH} "
            "(1 changes nothing)"
        )

    def adjust(
        logits: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows tokens"]
    ) -> Float[Tensor, "rows vocabulary"]:
        used = logits.gather(1, tokens)
        return logits.scatter(1, tokens, torch.where(used > 0, used / strength, used * strength))

    return adjust


def no_repeat_ngrams(size: int) -> Adjust:
    """Forbids every token that would complete a run of `size` tokens a second time (Paulus et al. 2018)."""
    if size < 1:
        raise SettingsError(f"no_repeat_ngrams: {size} should be at least 1")

    def adjust(
        logits: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows tokens"]
    ) -> Float[Tensor, "rows vocabulary"]:
        length = tokens.shape[1]
        if length < size:
            return logits
        runs = tokens.unfold(1, size, 1)
        recent = tokens[:, length - size + 1 :].unsqueeze(1)
        rows, positions = (runs[..., :-1] == recent).all(-1).nonzero(as_tuple=True)
        return logits.index_put((rows, runs[rows, positions, -1]), logits.new_tensor(-torch.inf))

    return adjust


def force(
    log_probabilities: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, " rows"]
) -> Float[Tensor, "rows vocabulary"]:
    """Leaves only the given token possible, at its own log-probability; a row whose token is -1 stays free."""
    choices = torch.arange(log_probabilities.shape[1], device=tokens.device)
    allowed = (tokens < 0).unsqueeze(1) | (choices == tokens.unsqueeze(1))
    return log_probabilities.masked_fill(~allowed, -torch.inf)

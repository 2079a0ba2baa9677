"""A sentence that a search found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A sentence with its scores; `tokens` contain neither <s> nor </s>."""

    tokens: list[int]
    score: float
    """The length-normalised log-probability, by which hypotheses are ranked."""
    sum_log_prob: float
    log_probs: list[float]
    """The log-probability of each token, and of </s> if the hypothesis is complete."""
    complete: bool = True
    """False if the maximum length cut it off before </s>."""

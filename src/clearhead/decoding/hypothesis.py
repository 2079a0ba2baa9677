"""A sentence that a search found, with what the model thinks of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """`tokens` carry neither <s> nor </s>; `log_probabilities` hold that of </s> too, where it was reached."""

    tokens: list[int]
    score: float
    """The log-probability over the length penalty: what hypotheses are ranked by."""
    log_probability: float
    log_probabilities: list[float]
    complete: bool = True
    """False when the longest length cut it off before </s>."""

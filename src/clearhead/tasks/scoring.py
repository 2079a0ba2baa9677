"""How probable a model finds a given text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp

from clearhead.decoding.penalties import length_normalizer


@dataclass(frozen=True)
class TextScore:
    """The log-probability of a text, token by token."""

    text: str
    tokens: tuple[str, ...] = field(repr=False)
    """The predicted tokens, readable; </s> is among them where the model predicts it."""
    log_probs: tuple[float, ...] = field(repr=False)
    """Of each token, given all before it."""
    length_penalty: float = field(default=0.0, repr=False)
    """The exponent by which `score` normalises."""

    @property
    def sum_log_prob(self) -> float:
        return sum(self.log_probs)

    @property
    def mean_log_prob(self) -> float:
        """Per token."""
        return self.sum_log_prob / max(len(self.log_probs), 1)

    @property
    def perplexity(self) -> float:
        return exp(min(-self.mean_log_prob, 700.0))

    @property
    def score(self) -> float:
        """The log-probability divided by the length penalty, by which a search ranks."""
        return self.sum_log_prob / length_normalizer(len(self.log_probs), self.length_penalty)

    def __repr__(self) -> str:
        return (
            f"TextScore({self.text!r}: log-probability {self.sum_log_prob:.4f}, "
            f"{self.mean_log_prob:.4f} per token, perplexity {self.perplexity:.2f})"
        )


def by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows to compute together: of similar length, within a budget of rows times length; none are empty."""
    batch: list[int] = []
    for row in sorted((row for row, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[row] + 1) > budget:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch

"""The types that models and searches share: a step function, its state, and the hypotheses found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

Rows = Int[Tensor, " rows"]
Logits = Float[Tensor, "rows vocabulary"]
Adjust: TypeAlias = Callable[[Logits, Int[Tensor, "rows tokens"]], Logits]
"""From logits and the tokens so far to new logits."""


@runtime_checkable
class State(Protocol):
    """What a model keeps about the tokens so far, one row per open hypothesis."""

    def select(self, rows: Int[Tensor, " chosen"], /) -> None:
        """Replaces row i by row rows[i], in place: reorders, duplicates and drops."""


StateT = TypeVar("StateT", bound=State)
StateT_contra = TypeVar("StateT_contra", bound=State, contravariant=True)


@runtime_checkable
class Step(Protocol[StateT_contra]):
    """Takes one token per row, advances the state, and returns the logits of the next token."""

    def __call__(self, tokens: Rows, state: StateT_contra, /) -> Logits: ...


@dataclass(frozen=True)
class Hypothesis:
    """A sentence that a search found; `tokens` contain neither <s> nor </s>."""

    tokens: list[int]
    score: float
    """The length-normalised log-probability, by which hypotheses are ranked."""
    sum_log_prob: float
    log_probs: list[float]
    """The log-probability of each token, and of </s> if the hypothesis is complete."""
    complete: bool = True
    """False if the maximum length cut it off before </s>."""
    row: int = field(default=0, repr=False, compare=False)
    """The row of the state in its last step."""

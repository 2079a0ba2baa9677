"""The interface between models and searches: a step function, and a state whose rows can be selected."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model keeps about the tokens so far, one row per open hypothesis."""

    def select(self, rows: Int[Tensor, " chosen"], /) -> None:
        """Replaces row i by row rows[i], in place: reorders, duplicates and drops."""
        ...


StateT = TypeVar("StateT", bound=State)
StateT_contra = TypeVar("StateT_contra", bound=State, contravariant=True)


@runtime_checkable
class Step(Protocol[StateT_contra]):
    """Takes one token per row, advances the state, and returns the logits of the next token."""

    def __call__(
        self, tokens: Int[Tensor, " rows"], state: StateT_contra, /
    ) -> Float[Tensor, "rows vocabulary"]: ...


# From logits and the tokens so far to new logits.
Adjust: TypeAlias = Callable[
    [Float[Tensor, "rows vocabulary"], Int[Tensor, "rows tokens"]], Float[Tensor, "rows vocabulary"]
]

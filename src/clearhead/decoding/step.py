"""The seam between models and searches: one step of a model, and a state whose rows can be chosen."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model remembers about the tokens it has been given, a row per open hypothesis."""

    def select(self, rows: Int[Tensor, " chosen"], /) -> None:
        """Row i becomes what row rows[i] was, in position: reorders, duplicates and drops."""
        ...


Remembered = TypeVar("Remembered", bound=State)
Remembered_contra = TypeVar("Remembered_contra", bound=State, contravariant=True)


@runtime_checkable
class Step(Protocol[Remembered_contra]):
    """Feeds one token to every row and advances the state; gives the logits of the next token."""

    def __call__(
        self, tokens: Int[Tensor, " rows"], state: Remembered_contra, /
    ) -> Float[Tensor, "rows vocabulary"]: ...


# From logits and the tokens chosen so far to other logits.
Adjust: TypeAlias = Callable[
    [Float[Tensor, "rows vocabulary"], Int[Tensor, "rows tokens"]], Float[Tensor, "rows vocabulary"]
]

"""One sentence and its translation."""

from typing import NamedTuple


class Pair(NamedTuple):
    source: str
    target: str

    @property
    def turned(self) -> "Pair":
        """The same in the other direction."""
        return Pair(self.target, self.source)


class Directed(NamedTuple):
    """A pair as a model reads it: before the source, the id that asks for the target's language, if any."""

    pair: Pair
    tag: int | None = None

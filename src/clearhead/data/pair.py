"""One sentence and its translation, or one prompt and its answer."""

from typing import NamedTuple


class Pair(NamedTuple):
    source: str
    target: str

    @property
    def swapped(self) -> "Pair":
        """The pair in the other direction."""
        return Pair(self.target, self.source)


class TaggedPair(NamedTuple):
    """A pair and the id of the target-language tag that precedes its source, if any."""

    pair: Pair
    tag: int | None = None

"""One sentence and its translation."""

from typing import NamedTuple


class Pair(NamedTuple):
    source: str
    target: str

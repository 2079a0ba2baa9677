"""A score with its signature, and the checks before scoring."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import DataError


@dataclass(frozen=True)
class Score:
    """A value with the signature that makes it reproducible (Post 2018)."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def check_lines(**texts: Sequence[str]) -> None:
    """Raises DataError unless all texts have the same number of lines, at least one."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if not all(counts.values()):
        empty = next(name for name, count in counts.items() if not count)
        raise DataError(f"{empty}: no lines, nothing to score; give a file with text")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"line counts differ: {shown}; give files that match line by line")

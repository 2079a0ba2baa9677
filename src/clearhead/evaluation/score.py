"""One measurement, with what is needed to repeat it, and the checks before any."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import DataError


@dataclass(frozen=True)
class Score:
    """A value means little without the signature that says how it was made."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def check_lines(**texts: Sequence[str]) -> None:
    """Refuses texts that do not go together line by line."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if not all(counts.values()):
        empty = next(name for name, count in counts.items() if not count)
        raise DataError(f"{empty}: no lines, so there is nothing to score; give a file that has some")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"unequal numbers of lines: {shown}; give files that go together line by line")

"""What a number measures, a score with its signature, and the check before scoring."""

from collections.abc import Sized
from dataclasses import dataclass
from math import isfinite

from clearhead.errors import DataError


@dataclass(frozen=True)
class Metric:
    """A quantity that validation reports; `name` is its key in metrics.jsonl."""

    name: str
    label: str
    higher_is_better: bool = False
    format: str = ".3f"

    def text(self, value: float) -> str:
        """The value as people read it, with its label."""
        return f"{self.label} {value:{self.format}}"

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value beats the best so far; NaN and infinity never do."""
        if not isfinite(value):
            return False
        return best is None or (value > best if self.higher_is_better else value < best)


LOSS = Metric("loss", "loss")
BLEU = Metric("bleu", "BLEU", higher_is_better=True, format=".1f")
BITS_PER_BYTE = Metric("bits_per_byte", "bits per byte")
PERPLEXITY = Metric("perplexity", "perplexity", format=".2f")
ACCURACY = Metric("accuracy", "accuracy", higher_is_better=True, format=".1%")
EXACT_MATCH = Metric("exact_match", "exact match", higher_is_better=True, format=".1%")
F1 = Metric("f1", "F1", higher_is_better=True, format=".1%")
MACRO_F1 = Metric("macro_f1", "macro-F1", higher_is_better=True, format=".1%")


@dataclass(frozen=True)
class Score:
    """A value with the signature that makes it reproducible (Post 2018)."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def check_lines(**texts: Sized) -> None:
    """Raises DataError unless all texts have the same number of lines, at least one."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if not all(counts.values()):
        empty = next(name for name, count in counts.items() if not count)
        raise DataError(f"{empty}: no lines, nothing to score; give a file with text")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"line counts differ: {shown}; give files that match line by line")

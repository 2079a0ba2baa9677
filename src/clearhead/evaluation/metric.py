"""What a number measures: its name, which way is better, and how to print it."""

from dataclasses import dataclass
from math import isfinite


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
ACCURACY = Metric("accuracy", "accuracy", higher_is_better=True, format=".1%")

"""What a task measures and selects checkpoints by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A measure by name: which values are better, and how to print them."""

    name: str
    higher_is_better: bool
    format: str = "{:.3f}"

    def better(self, value: float, other: float) -> bool:
        """Whether the first value is better; NaN never is, and every number is better than NaN."""
        if value != value or other != other:
            return value == value and other != other
        return value > other if self.higher_is_better else value < other

    def text(self, value: float) -> str:
        """The value as it is printed, without the name."""
        return self.format.format(value)

    def __call__(self, value: float) -> str:
        """The name and the value as they are printed: "bleu 41.02"."""
        return f"{self.name} {self.text(value)}"


LOSS = Metric("loss", higher_is_better=False)
BLEU = Metric("bleu", higher_is_better=True, format="{:.2f}")
BITS_PER_BYTE = Metric("bits_per_byte", higher_is_better=False)
ACCURACY = Metric("accuracy", higher_is_better=True, format="{:.1%}")

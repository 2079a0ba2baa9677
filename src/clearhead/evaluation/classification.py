"""How well classes are predicted: F1, the confusion matrix, and whether probabilities can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

BINS = 15


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How often each class was found, was predicted and occurs."""

    hits: NDArray[np.int64]
    predicted: NDArray[np.int64]
    actual: NDArray[np.int64]

    @property
    def precision(self) -> NDArray[np.float64]:
        """NaN for a class that is never predicted."""
        return _ratio(self.hits, self.predicted)

    @property
    def recall(self) -> NDArray[np.float64]:
        """NaN for a class that never occurs."""
        return _ratio(self.hits, self.actual)

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of precision and recall; NaN if a class neither occurs nor is predicted."""
        return _ratio(2 * self.hits, self.predicted + self.actual)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that occur or are predicted, each counted alike."""
        return float(np.nanmean(self.f1))

    @property
    def micro_f1(self) -> float:
        """The F1 of all decisions together; of one class per example, it is the accuracy."""
        return float(_ratio(2 * self.hits.sum(), self.predicted.sum() + self.actual.sum()))

    @property
    def absent(self) -> list[int]:
        """The classes without an example."""
        return np.flatnonzero(self.actual == 0).tolist()


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class (row) was predicted as each class (column); one class per example."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, correct: Sequence[int], predicted: Sequence[int], classes: int) -> "Confusion":
        cells = np.asarray(correct, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)
        return cls(np.bincount(cells, minlength=classes * classes).reshape(classes, classes))

    @cached_property
    def by_class(self) -> ClassCounts:
        return ClassCounts(self.counts.diagonal(), self.counts.sum(0), self.counts.sum(1))

    @property
    def accuracy(self) -> float:
        return float(self.counts.trace() / self.counts.sum())

    @property
    def f1(self) -> NDArray[np.float64]:
        return self.by_class.f1

    @property
    def macro_f1(self) -> float:
        return self.by_class.macro_f1

    @property
    def absent(self) -> list[int]:
        return self.by_class.absent


@dataclass(frozen=True, eq=False)
class LabelSets:
    """The labels of examples that may have any number of them, and those that were predicted."""

    correct: Bool[np.ndarray, "examples labels"]
    predicted: Bool[np.ndarray, "examples labels"]

    @cached_property
    def by_class(self) -> ClassCounts:
        return ClassCounts((self.correct & self.predicted).sum(0), self.predicted.sum(0), self.correct.sum(0))

    @property
    def accuracy(self) -> float:
        """The share of examples with exactly the right labels."""
        return float((self.correct == self.predicted).all(1).mean())


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions by their probability, in bins of equal width: a reliability diagram (Guo et al. 2017)."""

    counts: NDArray[np.int64]
    probability: NDArray[np.float64]
    """The mean of each bin; NaN if it is empty."""
    accuracy: NDArray[np.float64]
    """The share of each bin's predictions that is right; NaN if it is empty."""

    @classmethod
    def of(
        cls,
        probability: Float[np.ndarray, " predictions"],
        right: Bool[np.ndarray, " predictions"],
        bins: int = BINS,
    ) -> "Calibration":
        # A bin includes its upper edge, as in the paper; so the lowest one begins below 0.
        bin_of = np.clip(np.ceil(np.asarray(probability) * bins).astype(np.int64) - 1, 0, bins - 1)
        counts = np.bincount(bin_of, minlength=bins)
        sums = (np.bincount(bin_of, values, minlength=bins) for values in (probability, right))
        return cls(counts, *(_ratio(total, counts) for total in sums))

    @property
    def error(self) -> float:
        """The expected calibration error: how far probabilities are from accuracies, on average."""
        gaps = np.nan_to_num(np.abs(self.probability - self.accuracy))
        return float((gaps * self.counts).sum() / self.counts.sum())


def _ratio(parts: NDArray | np.integer, totals: NDArray | np.integer) -> NDArray[np.float64]:
    """The quotient; NaN where nothing is divided by nothing."""
    with np.errstate(invalid="ignore"):
        return np.divide(parts, totals, dtype=np.float64)

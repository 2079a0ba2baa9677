"""How well classes are predicted: the confusion matrix, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class (row) was predicted as each class (column)."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, correct: Sequence[int], predicted: Sequence[int], classes: int) -> "Confusion":
        cells = np.asarray(correct, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)
        return cls(np.bincount(cells, minlength=classes * classes).reshape(classes, classes))

    @property
    def accuracy(self) -> float:
        return float(self.counts.trace() / self.counts.sum())

    @property
    def f1(self) -> NDArray[np.float64]:
        """The F1 of each class, from precision and recall; NaN if it neither occurs nor is predicted."""
        hits, total = self.counts.diagonal(), self.counts.sum(0) + self.counts.sum(1)
        with np.errstate(invalid="ignore"):
            return 2 * hits / total

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that occur or are predicted, each counted alike."""
        return float(np.nanmean(self.f1))

    @property
    def absent(self) -> list[int]:
        """The classes without an example."""
        return np.flatnonzero(self.counts.sum(1) == 0).tolist()

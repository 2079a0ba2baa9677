"""The epoch, rank and resume logic that all kinds of batches share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import numpy as np
from numpy.random import Generator

from clearhead.data.batch import TensorBatch

Plan = TypeVar("Plan")
Batch = TypeVar("Batch", bound=TensorBatch, covariant=True)


@dataclass(frozen=True)
class Share:
    """One rank's share of an epoch: rank r of R takes every R-th batch, from the r-th on."""

    rank: int = 0
    ranks: int = 1
    batches_per_step: int = 0
    """Batches of all ranks in one optimizer step; an epoch has a multiple of it. 0 means one per rank."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches_per_step", self.batches_per_step or self.ranks)

    def of(self, plans: Iterable[Plan], skip: int = 0) -> Iterator[Plan]:
        """This rank's part of an epoch, without the first `skip` batches of all ranks."""
        return islice(plans, skip + self.rank, None, self.ranks)


SINGLE = Share()


class PlannedBatches(ABC, Generic[Plan, Batch]):
    """Batches, epoch by epoch, for one of several ranks.

    Every rank makes the same plan from (seed, epoch), then builds only its share of the batches. So training
    can resume anywhere, with any number of ranks.
    """

    def __init__(self, seed: int, share: Share = SINGLE):
        self.seed, self.share = seed, share

    @abstractmethod
    def plan(self, epoch: int) -> Iterable[Plan]:
        """The plans of all ranks' batches in order; a multiple of `share.batches_per_step`."""

    @abstractmethod
    def build(self, epoch: int, plan: Plan) -> Batch: ...

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """This rank's batches of an epoch, without the first `skip` batches of all ranks."""
        for plan in self.share.of(self.plan(number), skip):
            yield self.build(number, plan)

    def random(self, epoch: int) -> Generator:
        return np.random.default_rng((self.seed, epoch))


def whole_steps(
    plans: Iterable[Plan], batches_per_step: int, divide: Callable[[Plan, int], list[Plan]]
) -> Iterator[Plan]:
    """The plans; if the last ones do not fill a step, the first of these is divided until they do."""
    stream = iter(plans)
    while step := list(islice(stream, batches_per_step)):
        missing = batches_per_step - len(step)
        yield from divide(step[0], missing + 1) if missing else step[:1]
        yield from step[1:]

"""Training: losses, optimizers, schedules, the step loop, and saved states."""

from clearhead.training.averaging import MovingAverage, average_weights, interpolate
from clearhead.training.budget import Pace, TimeBudget
from clearhead.training.config import AverageConfig, ParentConfig, TrainingConfig
from clearhead.training.criterion import Criterion, RDropConfig, RegulariserConfig, SimCutConfig
from clearhead.training.cross_entropy import Readout, chunked_cross_entropy, cross_entropy_loss
from clearhead.training.devices import find_device
from clearhead.training.feed import Feed, Prefetcher
from clearhead.training.interrupt import Interrupt
from clearhead.training.ranks import Ranks, join_ranks
from clearhead.training.state import StateFolder
from clearhead.training.trainer import DivergedError, Report, Trainer

__all__ = [
    "AverageConfig",
    "Criterion",
    "DivergedError",
    "Feed",
    "Interrupt",
    "MovingAverage",
    "Pace",
    "ParentConfig",
    "Prefetcher",
    "RDropConfig",
    "Ranks",
    "Readout",
    "RegulariserConfig",
    "Report",
    "SimCutConfig",
    "StateFolder",
    "TimeBudget",
    "Trainer",
    "TrainingConfig",
    "average_weights",
    "chunked_cross_entropy",
    "cross_entropy_loss",
    "find_device",
    "interpolate",
    "join_ranks",
]

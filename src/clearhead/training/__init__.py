"""Training: losses, optimizers, schedules, the step loop, and saved states."""

from clearhead.training.averaging import MovingAverage, average_weights
from clearhead.training.config import AverageConfig, TrainingConfig
from clearhead.training.criterion import Criterion, RDropConfig, RegulariserConfig, SimCutConfig
from clearhead.training.cross_entropy import Readout, chunked_cross_entropy, cross_entropy_loss
from clearhead.training.devices import choose_device, choose_precision, find_device
from clearhead.training.feed import Feed, Prefetcher
from clearhead.training.interrupt import Interrupt
from clearhead.training.optimizer import Optimizer, OptimizerConfig
from clearhead.training.ranks import Ranks, join_ranks
from clearhead.training.schedule import ScheduleConfig, learning_rate_at
from clearhead.training.state import StateFolder
from clearhead.training.trainer import DivergedError, Report, Trainer

__all__ = [
    "AverageConfig",
    "Criterion",
    "DivergedError",
    "Feed",
    "Interrupt",
    "MovingAverage",
    "Optimizer",
    "OptimizerConfig",
    "Prefetcher",
    "RDropConfig",
    "Ranks",
    "Readout",
    "RegulariserConfig",
    "Report",
    "ScheduleConfig",
    "SimCutConfig",
    "StateFolder",
    "Trainer",
    "TrainingConfig",
    "average_weights",
    "choose_device",
    "choose_precision",
    "chunked_cross_entropy",
    "cross_entropy_loss",
    "find_device",
    "join_ranks",
    "learning_rate_at",
]

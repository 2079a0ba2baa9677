"""From batches to weights."""

from clearhead.training.averaging import MovingAverage, average_weights
from clearhead.training.config import AverageConfig, TrainingConfig
from clearhead.training.criterion import Criterion, RDropConfig, SimCutConfig
from clearhead.training.devices import choose_device, choose_precision, find_device
from clearhead.training.feed import Feed
from clearhead.training.interrupt import Interrupt
from clearhead.training.loss import Readout, cross_entropy_loss, readout_loss
from clearhead.training.optimizer import Optimizer, OptimizerConfig
from clearhead.training.prefetch import Prefetcher
from clearhead.training.ranks import Ranks, joined
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
    "Report",
    "ScheduleConfig",
    "SimCutConfig",
    "StateFolder",
    "Trainer",
    "TrainingConfig",
    "average_weights",
    "choose_device",
    "choose_precision",
    "cross_entropy_loss",
    "find_device",
    "joined",
    "learning_rate_at",
    "readout_loss",
]

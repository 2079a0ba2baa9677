"""From batches to weights."""

from clearhead.training.averaging import MovingAverage, average_weights
from clearhead.training.config import AverageConfig, TrainingConfig
from clearhead.training.criterion import Criterion, RDropConfig, SimCutConfig
from clearhead.training.devices import choose_device, choose_precision, find_device
from clearhead.training.feed import Feed
from clearhead.training.interrupt import Interrupt
from clearhead.training.loss import Readout, readout_loss, smoothed_loss
from clearhead.training.optimizer import Optimizer, OptimizerConfig
from clearhead.training.prefetch import Ahead
from clearhead.training.ranks import Ranks, joined
from clearhead.training.schedule import ScheduleConfig, rate
from clearhead.training.state import StateFolder
from clearhead.training.trainer import DivergedError, Report, Trainer

__all__ = [
    "Ahead",
    "AverageConfig",
    "Criterion",
    "DivergedError",
    "Feed",
    "Interrupt",
    "MovingAverage",
    "Optimizer",
    "OptimizerConfig",
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
    "find_device",
    "joined",
    "rate",
    "readout_loss",
    "smoothed_loss",
]

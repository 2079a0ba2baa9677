"""Learning-rate schedules, as pure functions of the step (counted from 1)."""

import math
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from clearhead.config import Settings
from clearhead.errors import SettingsError

LearningRate = Annotated[float, Field(gt=0)]
Warmup = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class PaperSchedule(Settings):
    """factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5); Vaswani et al. 2017, section 5.3."""

    kind: Literal["paper"] = "paper"
    factor: LearningRate = 1.0
    warmup: PositiveInt = 4000
    width: PositiveInt | None = None
    """Model width; default: that of the recipe's model."""


class InverseSquareRootSchedule(Settings):
    """The paper's curve, given by its peak: linear warm-up, then decay with the root of the step."""

    kind: Literal["inverse-sqrt"] = "inverse-sqrt"
    learning_rate: LearningRate = 7e-4
    warmup: PositiveInt = 4000


class CosineSchedule(Settings):
    """Half a cosine from the peak to a fraction of it at the last step (Loshchilov and Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"
    learning_rate: LearningRate = 7e-4
    warmup: Warmup = 1000
    floor: Fraction = 0.0


class StableSchedule(Settings):
    """Warm-up, a long plateau, then linear decay over the last fraction of the steps (Hu et al. 2024)."""

    kind: Literal["warmup-stable-decay"] = "warmup-stable-decay"
    learning_rate: LearningRate = 7e-4
    warmup: Warmup = 1000
    decay: Fraction = 0.2
    floor: Fraction = 0.0


class ConstantSchedule(Settings):
    kind: Literal["constant"] = "constant"
    learning_rate: LearningRate = 1e-3
    warmup: Warmup = 0


ScheduleConfig = Annotated[
    PaperSchedule | InverseSquareRootSchedule | CosineSchedule | StableSchedule | ConstantSchedule,
    Field(discriminator="kind"),
]


def learning_rate_at(config: ScheduleConfig, step: int, steps: int) -> float:
    """The learning rate of a step in 1 … steps."""
    match config:
        case PaperSchedule(factor=factor, warmup=warmup, width=width):
            if width is None:
                raise SettingsError("training.schedule.width: missing; set it to the width of the model")
            return factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        case InverseSquareRootSchedule(learning_rate=learning_rate, warmup=warmup):
            return learning_rate * min(step / warmup, math.sqrt(warmup / step))
        case CosineSchedule(learning_rate=learning_rate, warmup=warmup, floor=floor):
            decay = 0.5 + 0.5 * math.cos(math.pi * _progress(step, warmup, steps))
            return learning_rate * min(_warm_up(step, warmup), floor + (1 - floor) * decay)
        case StableSchedule(learning_rate=learning_rate, warmup=warmup, decay=fraction, floor=floor):
            decay = 1 - _progress(step, round(steps * (1 - fraction)), steps)
            return learning_rate * min(_warm_up(step, warmup), floor + (1 - floor) * decay)
        case ConstantSchedule(learning_rate=learning_rate, warmup=warmup):
            return learning_rate * _warm_up(step, warmup)


def _warm_up(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, first: int, last: int) -> float:
    """0 up to `first`, 1 from `last` on."""
    return min(1.0, max(0.0, (step - first) / max(1, last - first)))

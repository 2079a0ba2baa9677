"""Learning rates as pure functions of the step, which counts from 1."""

import math
from typing import Annotated, Literal

from pydantic import Field

from clearhead.config import Settings

Rate = Annotated[float, Field(gt=0)]
Warmup = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class PaperSchedule(Settings):
    """factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5); Vaswani et al. 2017, section 5.3."""

    kind: Literal["paper"] = "paper"
    factor: Rate = 1.0
    warmup: Annotated[int, Field(gt=0)] = 4000


class InverseSquareRootSchedule(Settings):
    """The paper's curve given by its peak: straight up to it, then down with the root of the step."""

    kind: Literal["inverse-sqrt"] = "inverse-sqrt"
    learning_rate: Rate = 7e-4
    warmup: Annotated[int, Field(gt=0)] = 4000


class CosineSchedule(Settings):
    """Half a cosine from the peak down to a share of it at the last step (Loshchilov and Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"
    learning_rate: Rate = 7e-4
    warmup: Warmup = 1000
    floor: Share = 0.0


class StableSchedule(Settings):
    """Warm-up, a long plateau, then a straight fall over the last share of the steps (Hu et al. 2024)."""

    kind: Literal["warmup-stable-decay"] = "warmup-stable-decay"
    learning_rate: Rate = 7e-4
    warmup: Warmup = 1000
    decay: Share = 0.2
    floor: Share = 0.0


class ConstantSchedule(Settings):
    kind: Literal["constant"] = "constant"
    learning_rate: Rate = 1e-3
    warmup: Warmup = 0


ScheduleConfig = Annotated[
    PaperSchedule | InverseSquareRootSchedule | CosineSchedule | StableSchedule | ConstantSchedule,
    Field(discriminator="kind"),
]


def learning_rate_at(config: ScheduleConfig, step: int, steps: int, width: int) -> float:
    """The learning rate of a step in 1 … steps, for a model of a width."""
    match config:
        case PaperSchedule(factor=factor, warmup=warmup):
            return factor * width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        case InverseSquareRootSchedule(learning_rate=learning_rate, warmup=warmup):
            return learning_rate * min(step / warmup, math.sqrt(warmup / step))
        case CosineSchedule(learning_rate=learning_rate, warmup=warmup, floor=floor):
            fall = 0.5 + 0.5 * math.cos(math.pi * _progress(step, warmup, steps))
            return learning_rate * min(_rise(step, warmup), floor + (1 - floor) * fall)
        case StableSchedule(learning_rate=learning_rate, warmup=warmup, decay=decay, floor=floor):
            fall = 1 - _progress(step, round(steps * (1 - decay)), steps)
            return learning_rate * min(_rise(step, warmup), floor + (1 - floor) * fall)
        case ConstantSchedule(learning_rate=learning_rate, warmup=warmup):
            return learning_rate * _rise(step, warmup)


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, first: int, last: int) -> float:
    """0 up to `first`, 1 from `last` on."""
    return min(1.0, max(0.0, (step - first) / max(1, last - first)))

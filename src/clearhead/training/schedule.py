"""Learning-rate schedules, as pure functions of the step (counted from 1)."""

import math
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator

from clearhead.config import Settings
from clearhead.errors import SettingsError

LearningRate = Annotated[float, Field(gt=0)]
Warmup = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Line = Annotated[tuple[Warmup, PositiveInt, Fraction], Field(strict=False)]
# Warm-up and decay of a schedule whose end may move, as shares of the run. A long decay suits short runs.
WARMUP, DECAY = 0.1, 0.7


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


class PiecewiseSchedule(Settings):
    """Linear pieces, starting from 0: the schedule of a run whose end may move.

    Adding a piece leaves the learning rates before it bit-identical.
    """

    kind: Literal["piecewise"] = "piecewise"
    learning_rate: LearningRate = 7e-4
    lines: Annotated[tuple[Line, ...], Field(strict=False, min_length=1)]
    """For each piece: its first step, the step it heads for, and the share of the learning rate there."""

    @field_validator("lines")
    @classmethod
    def _in_order(cls, lines: tuple[tuple[int, int, float], ...]) -> tuple[tuple[int, int, float], ...]:
        starts = [start for start, _, _ in lines]
        if starts[0] or starts != sorted(set(starts)):
            raise ValueError(f"the lines start at steps {starts}; start at 0 and write them in order")
        for start, end, _ in lines:
            if end <= start:
                raise ValueError(f"a line from step {start} to step {end} has no length; end it later")
        return lines

    def share(self, step: int) -> float:
        """The share of the learning rate at a step."""
        share = 0.0
        for (start, end, goal), corner in zip(self.lines, self.corners, strict=True):
            way = (min(step, corner) - start) / (end - start)
            share = (1 - way) * share + way * goal
            if step <= corner:
                break
        return share

    @property
    def corners(self) -> list[int]:
        """The step at which each line ends: at the start of the next."""
        return [*(start for start, _, _ in self.lines[1:]), self.lines[-1][1]]


ScheduleConfig = Annotated[
    PaperSchedule
    | InverseSquareRootSchedule
    | CosineSchedule
    | StableSchedule
    | ConstantSchedule
    | PiecewiseSchedule,
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
        case PiecewiseSchedule(learning_rate=learning_rate):
            return learning_rate * config.share(step)


def decaying_to(config: ScheduleConfig, step: int, steps: int, end: int) -> PiecewiseSchedule:
    """The schedule of a run of `steps` up to a step, then one that reaches zero at `end`.

    What is planned after the step is scaled to the new length. At the start, and after a decay to zero, the
    rate rises to its peak and stays there for a while; another schedule than this decays at once.
    """
    peak, warmup = peak_of(config)
    now = learning_rate_at(config, step, steps) / peak if step else 0.0
    past, corners, length = [(0, step, now)] if step else [], [], end - step
    if isinstance(config, PiecewiseSchedule):
        past = [line for line in config.lines if line[0] < step]
        ahead = [corner - step for corner in config.corners if corner > step]
        corners = [(round(one * length / ahead[-1]), config.share(step + one)) for one in ahead]
    elif now and step >= warmup:
        corners = [(length, 0.0)]
    if not corners:
        rise = max(1, min(warmup, round(WARMUP * length)))
        corners = [(rise, 1.0), (round((1 - DECAY) * length), 1.0), (length, 0.0)]
    lines, start = past, step
    for after, share in corners:
        # Rounding may have put a corner on another one.
        if start < step + after and (after < length or share == 0):
            lines.append((start, step + after, share))
            start = step + after
    return PiecewiseSchedule(learning_rate=peak, lines=tuple(lines))


def cooldown(config: ScheduleConfig, step: int, steps: int, end: int) -> PiecewiseSchedule:
    """A linear decay to zero at `end`, from the rate of a step of a run of `steps`."""
    rate = learning_rate_at(config, step, steps)
    return PiecewiseSchedule(learning_rate=rate, lines=((0, step, 1.0), (step, end, 0.0)))


def rescaled(config: ScheduleConfig, step: int, steps: int, end: int) -> tuple[ScheduleConfig, str]:
    """The schedule of a run of `steps` that continues after a step and ends at `end`; and what that changes.

    A warm-up that is not over is scaled with the run.
    """
    warmup, note = peak_of(config)[1], f"schedule: {config.kind}"
    if isinstance(config, PiecewiseSchedule):
        return decaying_to(config, step, steps, end), f"{note}, now reaches zero at step {end:,}"
    if step < warmup:
        scaled = max(step + 1, round(warmup * end / steps))
        config = config.model_copy(update={"warmup": scaled})
        note += f", warm-up of {scaled:,} instead of {warmup:,} steps"
    if isinstance(config, CosineSchedule | StableSchedule):
        return config, f"{note}, now ends at step {end:,}"
    return config, f"{note}, whose rate after the warm-up does not depend on the number of steps"


def peak_of(config: ScheduleConfig) -> tuple[float, int]:
    """The highest learning rate, and the step that reaches it."""
    match config:
        case PaperSchedule(warmup=warmup):
            return learning_rate_at(config, warmup, warmup), warmup
        case PiecewiseSchedule(learning_rate=learning_rate):
            return learning_rate, config.corners[0]
        case _:
            return config.learning_rate, config.warmup


def _warm_up(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _progress(step: int, first: int, last: int) -> float:
    """0 up to `first`, 1 from `last` on."""
    return min(1.0, max(0.0, (step - first) / max(1, last - first)))

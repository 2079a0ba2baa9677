"""The time of a run: how fast it is, what is left, and how many steps fit into a budget."""

from collections import deque
from collections.abc import Callable
from statistics import fmean, median
from time import perf_counter

from clearhead.errors import SettingsError

Clock = Callable[[], float]
# The first steps compile, allocate and fill caches.
UNTYPICAL_STEPS = 3
# Steps whose mean is the present speed.
RECENT_STEPS = 100
# A step that takes this many times longer than the median compiled something or waited for another program.
STALL = 5
# Validations and saves take this share of the time of the steps, until one was measured.
PAUSE_SHARE = 0.1
# A shorter run would be over before the model is built.
MIN_MINUTES = 0.5
# A model of fewer steps is of no use, whatever the budget.
MIN_STEPS = 20
# Kept in reserve: a share of the budget, and the seconds to start and to draw the curves.
MARGIN_SHARE, MARGIN_SECONDS = 0.01, 2.0
# A plan is changed if its end is off by more than this share of the steps that are left.
TOLERANCE = 0.03
# The next check comes after this share of the steps that are left.
CHECK_SHARE = 0.05


class Pace:
    """The speed of a run, by the clock: the time of a step, and of each pause to validate or save.

    Call `step_done` after each step and `pause_done` after each pause.
    """

    def __init__(self, validate_every: int = 0, save_every: int = 0, clock: Clock = perf_counter):
        self.every = {"validate": validate_every, "save": save_every}
        self._clock = clock
        self._steps: deque[float] = deque(maxlen=RECENT_STEPS)
        self._untypical = UNTYPICAL_STEPS
        self._pauses: dict[str, deque[float]] = {kind: deque(maxlen=3) for kind in self.every}
        self._pause = 0.0
        self._mark = clock()

    def step_done(self) -> None:
        if self._untypical and len(self._steps) == self._untypical:
            self._steps.clear()
            self._untypical = 0
        self._steps.append(self._since_mark())

    def pause_done(self, step: int) -> None:
        """The pause after a step is over; a pause outside the regular intervals is ignored."""
        seconds = self._since_mark()
        for kind, every in self.every.items():
            if every and step % every == 0:
                self._pauses[kind].append(seconds)
                return

    @property
    def seconds_per_step(self) -> float:
        """The mean of the recent steps, without stalls; 0 before the first."""
        if not self._steps:
            return 0.0
        typical = median(self._steps)
        return fmean(seconds for seconds in self._steps if seconds <= STALL * typical)

    @property
    def seconds_per_validation(self) -> float | None:
        """None before the first one."""
        return fmean(self._pauses["validate"]) if self._pauses["validate"] else None

    def seconds_left(self, step: int, end: int) -> float:
        """The time that the steps after `step` up to `end` will take, with all pauses and the publication."""
        each, pause = self.seconds_per_step, self.seconds_per_validation
        if pause is None:
            return (end - step) * each * (1 + PAUSE_SHARE)
        validations = self._count("validate", step, end) + (end % self.every["validate"] > 0)
        # The finished model is validated once more.
        return (end - step) * each + (validations + 1) * pause + self._saving(step, end)

    def steps_in(self, seconds: float) -> int:
        """The number of steps that fit into a time, with their pauses and the publication."""
        each, pause = self.seconds_per_step, self.seconds_per_validation
        if not each:
            return 0
        if pause is None:
            return int(seconds / (each * (1 + PAUSE_SHARE)))
        each += (
            pause / self.every["validate"] + self._saving(0, self.every["validate"]) / self.every["validate"]
        )
        return int(max(0.0, seconds - 2 * pause) / each)

    def _saving(self, step: int, end: int) -> float:
        """The time of saves between validations."""
        if not self._pauses["save"]:
            return 0.0
        count = self._count("save", step, end)
        if self.every["validate"] and self.every["validate"] % self.every["save"] == 0:
            count -= self._count("validate", step, end)
        return count * fmean(self._pauses["save"])

    def _count(self, kind: str, step: int, end: int) -> int:
        every = self.every[kind]
        return end // every - step // every if every else 0

    def _since_mark(self) -> float:
        before, self._mark = self._mark, self._clock()
        return self._mark - before


class TimeBudget:
    """The time that a run may take, counted from `started` or else from now.

    `max_steps` is the number of steps after which more time would not help.
    """

    def __init__(self, minutes: float, clock: Clock = perf_counter, started: float | None = None):
        if not MIN_MINUTES <= minutes < float("inf"):
            raise SettingsError(
                f"--minutes {minutes:g}: is not a time to train for; pass {MIN_MINUTES:g} or more"
            )
        self.minutes, self.clock = minutes, clock
        self.max_steps: int | None = None
        self._end = (clock() if started is None else started) + 60 * minutes

    @property
    def seconds_left(self) -> float:
        return self._end - self.clock()

    def end_of(self, step: int, pace: Pace) -> int:
        """The last step that fits at the present speed; at least one more."""
        margin = MARGIN_SHARE * 60 * self.minutes + MARGIN_SECONDS
        fits = step + pace.steps_in(self.seconds_left - margin)
        return max(step + 1, min(max(fits, MIN_STEPS), self.max_steps or fits))

    @staticmethod
    def next_check(step: int, end: int) -> int:
        """The step at which to compare the plan with the clock again."""
        return step + max(1, int(CHECK_SHARE * (end - step)))

    @staticmethod
    def is_off(step: int, end: int, planned: int) -> bool:
        """Whether an end differs so much from the planned one that the plan should change."""
        return abs(end - planned) > max(1, TOLERANCE * (planned - step))

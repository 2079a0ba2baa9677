"""Time left and time budgets, by a clock that the tests advance."""

import random

import pytest

from clearhead.errors import SettingsError
from clearhead.training.budget import MIN_STEPS, Pace, TimeBudget


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(pace: Pace, clock: Clock, first: int, last: int, step_seconds, validate_every: int, pause: float):
    """Takes the steps of a run after `first` up to `last`."""
    for step in range(first + 1, last + 1):
        clock.now += step_seconds(step)
        pace.step_done()
        if step % validate_every == 0:
            clock.now += pause
            pace.pause_done(step)


def varying(seconds: float):
    """Steps of batches of different lengths."""
    generator = random.Random(1)
    return lambda step: seconds * generator.uniform(0.6, 1.4)


STEPS = {
    "even": lambda step: 0.1,
    "varying": varying(0.1),
    "first compiles": lambda step: 60.0 if step == 1 else 0.1,
    "two compile": lambda step: 60.0 if step in (1, 7) else 0.1,
}


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("pause", [0.0, 1.0, 5.0], ids=lambda pause: f"validations of {pause:g} s")
def test_the_time_left_is_within_a_factor_of_one_and_a_half_after_20_steps(kind, pause):
    clock, steps = Clock(), 1000
    pace = Pace(validate_every=100, save_every=100, clock=clock)
    run(pace, clock, 0, 20, STEPS[kind], 100, pause)
    estimate, now = pace.seconds_left(20, steps), clock.now
    run(pace, clock, 20, steps, STEPS[kind], 100, pause)
    assert 1 / 1.5 < estimate / (clock.now - now) < 1.5


@pytest.mark.parametrize("kind", STEPS)
def test_after_a_validation_the_time_left_is_nearly_exact(kind):
    clock = Clock()
    pace = Pace(validate_every=100, save_every=50, clock=clock)
    run(pace, clock, 0, 120, STEPS[kind], 100, 20.0)
    estimate, now = pace.seconds_left(120, 1000), clock.now
    run(pace, clock, 120, 1000, STEPS[kind], 100, 20.0)
    # The finished model is validated once more.
    assert estimate == pytest.approx(clock.now + 20 - now, rel=0.1)


def test_saves_between_validations_count():
    clock = Clock()
    pace = Pace(validate_every=100, save_every=50, clock=clock)
    run(pace, clock, 0, 150, lambda step: 0.1, 50, 10.0)
    assert pace.seconds_left(150, 300) == pytest.approx(150 * 0.1 + 3 * 10 + 10)


def test_the_steps_that_fit_take_the_time_that_they_are_given():
    clock = Clock()
    pace = Pace(validate_every=100, save_every=100, clock=clock)
    run(pace, clock, 0, 100, varying(0.1), 100, 3.0)
    count = pace.steps_in(300.0)
    assert pace.seconds_left(100, 100 + count) == pytest.approx(300, rel=0.05)


@pytest.mark.parametrize("minutes", [0, 0.1, -5, float("nan"), float("inf")])
def test_a_budget_that_is_no_time_to_train_for_is_refused(minutes):
    with pytest.raises(SettingsError, match=r"^--minutes \S+: is not a time to train for; pass 0.5 or more$"):
        TimeBudget(minutes)


def test_a_budget_ends_at_max_steps_and_never_before_a_few():
    clock = Clock()
    budget = TimeBudget(1, clock)
    budget.max_steps = 500
    pace = Pace(clock=clock)
    run(pace, clock, 0, 10, lambda step: 0.001, 100, 0.0)
    assert budget.end_of(10, pace) == 500
    clock.now = 59.9
    assert budget.end_of(10, pace) == MIN_STEPS
    assert budget.end_of(400, pace) == 401
    budget.max_steps = 15
    assert budget.end_of(10, pace) == 15


def test_a_budget_counts_from_its_start():
    clock = Clock()
    clock.now = 100.0
    assert TimeBudget(1, clock, started=90.0).seconds_left == 50
    assert TimeBudget(1, clock).seconds_left == 60

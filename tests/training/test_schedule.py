"""Schedules have the shape that their names promise, for all settings."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from clearhead.config import Settings, parse_settings
from clearhead.errors import SettingsError
from clearhead.training import TrainingConfig
from clearhead.training.schedule import (
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    PaperSchedule,
    PiecewiseSchedule,
    ScheduleConfig,
    StableSchedule,
    cooldown,
    decaying_to,
    learning_rate_at,
    rescaled,
)

shapes = some.builds(
    lambda steps, warmup: (steps, min(warmup, steps)), some.integers(10, 10_000), some.integers(1, 5000)
)
kinds = some.sampled_from([InverseSquareRootSchedule, CosineSchedule, StableSchedule, ConstantSchedule])


@given(shapes, some.integers(1, 10_000), some.floats(1e-6, 1.0), kinds)
def test_the_learning_rate_is_never_negative_and_never_above_the_peak(shape, step, learning_rate, kind):
    steps, warmup = shape
    found = learning_rate_at(kind(learning_rate=learning_rate, warmup=warmup), step, steps)
    assert 0 <= found <= learning_rate * (1 + 1e-12)


@given(shapes, kinds)
def test_the_learning_rate_rises_during_the_warmup_only(shape, kind):
    steps, warmup = shape
    if kind is StableSchedule:
        warmup = min(warmup, steps // 2)
    config = kind(learning_rate=1.0, warmup=warmup)
    rates = [learning_rate_at(config, step, steps) for step in range(1, steps + 1)]
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup - 1 :] == sorted(rates[warmup - 1 :], reverse=True)
    assert math.isclose(rates[warmup - 1], 1.0) or warmup == steps


@given(some.integers(1, 10_000), some.integers(1, 10_000), some.integers(1, 2048))
def test_the_papers_schedule_is_inverse_square_root_with_a_fixed_peak(step, warmup, width):
    learning_rate = (width * warmup) ** -0.5
    ours = learning_rate_at(InverseSquareRootSchedule(learning_rate=learning_rate, warmup=warmup), step, 1)
    paper = learning_rate_at(PaperSchedule(warmup=warmup, width=width), step, 1)
    assert math.isclose(paper, ours, rel_tol=1e-9)


def test_the_papers_schedule_takes_the_width_of_the_recipes_model():
    config = TrainingConfig(schedule=PaperSchedule())
    with pytest.raises(SettingsError, match=r"training\.schedule\.width: missing; set it to the width"):
        learning_rate_at(config.schedule, 1, 1)
    assert config.resolved(on_gpu=False, width=64).schedule == PaperSchedule(width=64)
    assert TrainingConfig(schedule=PaperSchedule(width=8)).resolved(False, 64).schedule == PaperSchedule(
        width=8
    )


def test_the_papers_base_model_peaks_at_7e_4():
    assert learning_rate_at(PaperSchedule(width=512), 4000, 100_000) == pytest.approx(6.99e-4, rel=1e-3)


@pytest.mark.parametrize("kind", [CosineSchedule, StableSchedule])
def test_a_decay_ends_at_its_floor(kind):
    assert learning_rate_at(kind(learning_rate=2.0, warmup=10, floor=0.1), 500, 500) == pytest.approx(0.2)


def test_the_stable_schedule_is_flat_until_its_decay():
    config = StableSchedule(learning_rate=3.0, warmup=10, decay=0.2)
    assert {learning_rate_at(config, step, 100) for step in range(10, 81)} == {3.0}
    assert learning_rate_at(config, 90, 100) == pytest.approx(1.5)


def test_without_warmup_the_first_step_has_the_peak():
    assert learning_rate_at(ConstantSchedule(learning_rate=0.5), 1, 10) == 0.5


def test_settings_are_chosen_by_kind_and_errors_are_named():
    class Recipe(Settings):
        schedule: ScheduleConfig

    chosen = parse_settings(Recipe, {"schedule": {"kind": "cosine", "learning_rate": 1e-3, "warmup": 5}})
    assert chosen.schedule == CosineSchedule(learning_rate=1e-3, warmup=5)
    with pytest.raises(SettingsError, match="schedule: 'cosin' is not one of paper, inverse-sqrt, cosine"):
        parse_settings(Recipe, {"schedule": {"kind": "cosin"}})
    with pytest.raises(SettingsError, match=r"schedule\.learning_rate: -1\.0 should be greater than 0"):
        parse_settings(Recipe, {"schedule": {"kind": "constant", "learning_rate": -1.0}})


def test_a_schedule_that_decays_to_an_end_warms_up_stays_and_reaches_zero():
    chosen = decaying_to(CosineSchedule(learning_rate=0.5, warmup=10), 0, 9999, 200)
    assert chosen.lines == ((0, 10, 1.0), (10, 60, 1.0), (60, 200, 0.0))
    rates = [learning_rate_at(chosen, step, 200) for step in (5, 10, 60, 130, 200)]
    assert rates == pytest.approx([0.25, 0.5, 0.5, 0.25, 0.0])


@pytest.mark.parametrize("step", [1, 5, 20, 60, 100, 199])
@pytest.mark.parametrize("end", [210, 230, 1000])
def test_moving_the_end_keeps_the_past_and_the_present_rate(step, end):
    before = decaying_to(StableSchedule(learning_rate=0.5, warmup=10), 0, 1, 200)
    after = decaying_to(before, step, 200, end)
    past = range(1, step + 1)
    assert [after.share(one) for one in past] == [before.share(one) for one in past]
    rates = [after.share(one) for one in range(step, end + 1)]
    assert rates[-1] == 0
    # No jumps, and once it falls it does not rise.
    assert max(abs(a - b) for a, b in pairwise(rates)) <= 1.001 * max(0.1, 1 / (end - step))
    top = rates.index(max(rates))
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_an_end_moved_nearer_squeezes_what_is_left():
    before = decaying_to(ConstantSchedule(learning_rate=1.0, warmup=20), 0, 1, 1000)
    after = decaying_to(before, 100, 1000, 550)
    assert after.lines == ((0, 20, 1.0), (20, 300, 1.0), (100, 200, 1.0), (200, 550, 0.0))


def test_after_a_decay_to_zero_the_rate_rises_again():
    before = decaying_to(ConstantSchedule(learning_rate=1.0, warmup=20), 0, 1, 100)
    after = decaying_to(before, 100, 100, 300)
    assert after.share(100) == after.share(300) == 0
    assert max(after.share(step) for step in range(101, 300)) == 1


def test_a_run_by_another_schedule_decays_from_its_present_rate():
    root = InverseSquareRootSchedule(learning_rate=1.0, warmup=100)
    assert decaying_to(root, 400, 9999, 500).lines == ((0, 400, 0.5), (400, 500, 0.0))


@pytest.mark.parametrize(
    "kind", [InverseSquareRootSchedule, CosineSchedule, StableSchedule, ConstantSchedule]
)
def test_a_cooldown_goes_from_the_present_rate_to_zero(kind):
    schedule = kind(learning_rate=0.5, warmup=10)
    chosen = cooldown(schedule, 50, 100, 60)
    assert learning_rate_at(chosen, 50, 60) == pytest.approx(learning_rate_at(schedule, 50, 100))
    assert learning_rate_at(chosen, 60, 60) == 0


def test_a_warm_up_that_is_not_over_is_scaled_with_the_run():
    chosen, note = rescaled(CosineSchedule(learning_rate=1.0, warmup=100), 3, 1000, 200)
    assert chosen.warmup == 20
    assert note == "schedule: cosine, warm-up of 20 instead of 100 steps, now ends at step 200"


def test_a_schedule_that_does_not_depend_on_the_steps_says_so():
    before = InverseSquareRootSchedule(learning_rate=1.0, warmup=100)
    after, note = rescaled(before, 300, 1000, 500)
    assert after == before
    assert note.startswith("schedule: inverse-sqrt, whose rate after the warm-up does not depend on")


@pytest.mark.parametrize("lines", [((5, 9, 1.0),), ((0, 9, 1.0), (0, 12, 0.0)), ((0, 9, 1.0), (9, 9, 0.0))])
def test_lines_that_do_not_follow_each_other_are_refused(lines):
    with pytest.raises(ValueError, match=r"start at 0 and write them in order|has no length"):
        PiecewiseSchedule(lines=lines)

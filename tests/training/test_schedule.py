"""Schedules have the shape that their names promise, for all settings."""

import math

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
    ScheduleConfig,
    StableSchedule,
    learning_rate_at,
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

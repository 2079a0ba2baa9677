"""A run with a time budget ends in time, at a learning rate of zero, and its settings repeat it."""

import signal
from pathlib import Path
from typing import Any

import pytest

from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import apply_overrides, parse_settings, read_toml
from clearhead.tasks.events import Finished, Note, Rescheduled, Validation
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.training import Report, TimeBudget

from .conftest import finish, interrupted_at, metrics

SMALL = [
    *("model.dropout=0.1", "model.width=16", "model.ffn_width=32", "batches.tokens=400"),
    *("training.save_every=20", "training.validate_every=20", "training.report_every=10"),
    *("validation.sentences=0", "training.precision='fp32'"),
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, number_recipe):
    """Makes a small recipe with changes."""
    values = read_toml(number_recipe(tmp_path_factory.mktemp("recipe")))

    def make(*changes: str) -> TranslationRecipe:
        return parse_settings(TranslationRecipe, apply_overrides(values, [*SMALL, *changes]))

    return make


class Machine:
    """A clock, and the time that steps and validations take on it."""

    def __init__(self, step: float, validation: float = 1.0):
        self.now, self.step, self.validation = 0.0, step, validation

    def __call__(self) -> float:
        return self.now

    def budget(self, minutes: float = 1.0) -> TimeBudget:
        return TimeBudget(minutes, self)

    def run(self, events: Any, slower_from: int = 10**9) -> list[Any]:
        """All events; steps take three times as long from a step on."""
        seen = []
        for event in events:
            if isinstance(event, Report):
                self.now += self.step * (3 if event.step >= slower_from else 1)
            elif isinstance(event, Validation):
                self.now += self.validation
            seen.append(event)
        assert isinstance(seen[-1], Finished)
        return seen


def settings_of(out: Path) -> dict[str, Any]:
    return read_toml(out / SETTINGS)["training"]


def rates(events: list[Any]) -> list[float]:
    return [event.learning_rate for event in events if isinstance(event, Report)]


@pytest.mark.parametrize("slower_from", [10**9, 15, 40], ids=["even", "soon slower", "later slower"])
def test_a_run_ends_with_its_budget_at_a_rate_of_zero(tmp_path, recipe, slower_from):
    machine = Machine(step=0.6)
    chosen = recipe("training.steps=100000")
    events = machine.run(train(chosen, tmp_path / "run", budget=machine.budget()), slower_from)
    # The finished model is validated once more, which reports no event.
    assert 50 < machine.now + machine.validation <= 60.6
    assert rates(events)[-1] == 0
    assert max(rates(events)) == chosen.training.schedule.learning_rate
    decided = settings_of(tmp_path / "run")
    assert decided["steps"] == events[-1].step == decided["schedule"]["lines"][-1][1]
    assert any(isinstance(event, Rescheduled) for event in events)


def test_a_run_that_is_over_early_ends_at_the_steps_of_its_recipe(tmp_path, recipe):
    machine = Machine(step=0.01)
    events = machine.run(train(recipe("training.steps=40"), tmp_path / "run", budget=machine.budget()))
    assert events[-1].step == settings_of(tmp_path / "run")["steps"] == 40
    assert rates(events)[-1] == 0


def test_the_settings_of_a_run_with_a_budget_repeat_it_bit_by_bit(tmp_path, recipe):
    machine = Machine(step=0.6)
    run = train(recipe("training.steps=100000"), tmp_path / "first", budget=machine.budget())
    machine.run(run, slower_from=40)
    finish(train(parse_recipe(read_toml(tmp_path / "first" / SETTINGS)), tmp_path / "second"))
    assert metrics(tmp_path / "first") == metrics(tmp_path / "second")
    assert (tmp_path / "first" / WEIGHTS).read_bytes() == (tmp_path / "second" / WEIGHTS).read_bytes()


def test_a_resumed_run_keeps_the_schedule_that_its_budget_decided(tmp_path, recipe):
    machine, out = Machine(step=0.6), tmp_path / "run"
    events = train(recipe("training.steps=100000"), out, budget=machine.budget())
    for event in events:
        if isinstance(event, Report):
            machine.now += machine.step
            if event.step == 45:
                signal.raise_signal(signal.SIGINT)
    decided = settings_of(out)
    assert 45 < finish(resume(out)).step == decided["steps"]
    assert settings_of(out) == decided
    finish(train(parse_recipe(read_toml(out / SETTINGS)), tmp_path / "straight"))
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("interrupted", [True, False], ids=["interrupted", "finished"])
def test_a_resumed_run_may_have_more_minutes(tmp_path, recipe, interrupted):
    out, chosen = tmp_path / "run", recipe("training.steps=40")
    if interrupted:
        interrupted_at({30}, train(chosen, out))
    else:
        finish(train(chosen, out))
    machine = Machine(step=0.6)
    events = machine.run(resume(out, budget=machine.budget()))
    assert 50 < machine.now + machine.validation <= 60.6
    assert events[-1].step > 80
    assert rates(events)[-1] == 0
    assert max(rates(events)) > 0


def test_very_slow_steps_end_after_a_few(tmp_path, recipe):
    machine = Machine(step=20.0)
    events = machine.run(train(recipe("training.steps=100000"), tmp_path / "run", budget=machine.budget()))
    assert events[-1].step == 20
    assert rates(events)[-1] == 0


# Stopping by a decay


def test_a_run_stopped_with_a_decay_gives_a_model_and_can_still_be_continued(tmp_path, recipe):
    chosen = recipe("training.steps=60")
    finish(train(chosen, tmp_path / "straight"))
    out, events = tmp_path / "stopped", []
    for event in train(chosen, out, decay_on_stop=True):
        events.append(event)
        if isinstance(event, Report) and event.step == 25:
            signal.raise_signal(signal.SIGINT)
    assert (events[-1].step, events[-1].interrupted) == (35, False)
    assert rates(events)[-1] == 0
    assert events[-1].reason.endswith("--resume continues from before it, step 25")
    assert (out / "README.md").exists()
    assert (out / WEIGHTS).read_bytes() != (tmp_path / "straight" / WEIGHTS).read_bytes()
    finish(resume(out))
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()
    assert metrics(out) == metrics(tmp_path / "straight")


def test_the_decay_never_exceeds_the_run(tmp_path, recipe):
    ended = interrupted_at({55}, train(recipe("training.steps=60"), tmp_path / "run", decay_on_stop=True))
    assert ended.step == 60


def test_a_second_ctrl_c_ends_the_decay_and_the_run_resumes_from_before_it(tmp_path, recipe):
    chosen, out = recipe("training.steps=60"), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        interrupted_at({25, 30}, train(chosen, out, decay_on_stop=True))
    finish(resume(out))
    finish(train(chosen, tmp_path / "straight"))
    assert (out / WEIGHTS).read_bytes() == (tmp_path / "straight" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("during_decay", [False, True])
def test_sigterm_saves_without_a_decay(tmp_path, recipe, during_decay):
    *_, last = _terminated(
        train(recipe("training.steps=60"), tmp_path / "run", decay_on_stop=True), during_decay
    )
    assert last.interrupted
    assert last.step == (30 if during_decay else 25)


def _terminated(events: Any, during_decay: bool):
    for event in events:
        if isinstance(event, Report) and event.step == 25:
            signal.raise_signal(signal.SIGINT if during_decay else signal.SIGTERM)
        if isinstance(event, Report) and event.step == 30:
            signal.raise_signal(signal.SIGTERM)
        yield event


# Another number of steps


def test_a_resumed_run_with_other_steps_says_what_happens_to_its_schedule(tmp_path, recipe):
    out = tmp_path / "run"
    interrupted_at({10}, train(recipe("training.steps=100", "training.schedule.warmup=50"), out))
    events = list(resume(out, ["training.steps=40"]))
    [note] = [one.text for one in events if isinstance(one, Note) and one.text.startswith("schedule: ")]
    assert note == "schedule: warmup-stable-decay, warm-up of 20 instead of 50 steps, now ends at step 40"
    assert settings_of(out)["schedule"]["warmup"] == 20


def test_a_run_with_a_budget_decays_to_its_new_end_when_it_is_resumed_with_other_steps(tmp_path, recipe):
    out, machine = tmp_path / "run", Machine(step=0.6)
    machine.run(train(recipe("training.steps=30"), out, budget=machine.budget()))
    events = list(resume(out, ["training.steps=50"]))
    assert Note("schedule: piecewise, now reaches zero at step 50") in events
    assert (events[-1].step, rates(events)[-1]) == (50, 0)

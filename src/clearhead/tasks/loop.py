"""The training loop: optimizer steps, reports, validations, saved states, early stopping."""

from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from clearhead.checkpoint import CARD, SETTINGS, WEIGHTS, save_weights, weights
from clearhead.config import settings_toml
from clearhead.errors import SettingsError, TrainingError
from clearhead.evaluation.metric import Metric
from clearhead.tasks.card import parameter_count, with_parents
from clearhead.tasks.comparison import compare
from clearhead.tasks.events import Event, Finished, Note, Rescheduled, Saved, Started, Validation
from clearhead.tasks.extension import parent_folder
from clearhead.tasks.init_from import init_weights_from
from clearhead.tasks.records import NoRecords, Records, add_final, draw_curves, write_named
from clearhead.tasks.task import RunContext, Task
from clearhead.training import (
    DivergedError,
    Feed,
    Interrupt,
    Pace,
    Prefetcher,
    Report,
    average_weights,
    interpolate,
)
from clearhead.training.config import TrainingConfig
from clearhead.training.ranks import StopRequests
from clearhead.training.schedule import cooldown, decaying_to
from clearhead.training.tensors import read_weights
from clearhead.wording import counted

INTERRUPTED = "interrupted"
# Steps after which the speed is known well enough to plan a run by it.
STEPS_BEFORE_PLAN = 10
# The decay of a run that is stopped takes this share of the steps so far, and at least so many.
STOP_SHARE, MIN_STOP_STEPS = 0.1, 10
# The file of the weights that a fine-tuned model started from.
INITIAL = "initial.safetensors"
# Settings that a resumed run may change: device, length and intervals, and remedies for divergence.
_NAMES = (
    *("average", "clip_norm", "device", "keep_best", "keep_last", "parallel", "patience"),
    *("report_every", "save_every", "save_minutes", "schedule", "steps"),
)
CHANGEABLE = tuple(f"training.{name}" for name in _NAMES)


def gradient_descent(task: Task, context: RunContext) -> Generator[Event, None, Finished]:
    """Builds the model of a prepared task, trains it and writes it to the run's folder."""
    training = task.recipe.training
    torch.manual_seed(training.seed)
    model = task.build()
    if training.init_from and not context.states.steps():
        start = parent_folder(context, training.init_from)
        new_head = init_weights_from(model, start, task.processor)
        if new_head:
            yield Note(f"weights: those of {training.init_from}, under a new head")
        if training.init_share:
            # A resumed run must not need the parent.
            context.ranks.first(lambda: save_weights(weights(model), context.states.folder / INITIAL))
    yield Note(f"model: {parameter_count(model):,} parameters")
    loop = TrainingLoop(task, model, context)
    if training.compile == "on":
        yield Note("the first step compiles the model, which can take a minute …")
    finished = yield from loop.events()
    if not finished.interrupted:
        final = loop.final_weights()
        context.ranks.first(lambda: loop.publish(final))
        if training.init_from and context.ranks.rank == 0:
            yield from compare(Path(training.init_from), context.out, finished.step, loop.trainer.device)
    return finished


@dataclass
class EarlyStopping:
    """The best score so far, and the number of validations since."""

    best: float | None = None
    waited: int = 0

    def improved(self, score: float, metric: Metric) -> bool:
        """Whether a score is the best so far; keeps it if so."""
        better = metric.is_better(score, self.best)
        self.best, self.waited = (score, 0) if better else (self.best, self.waited + 1)
        return better


@dataclass
class MetricWindow:
    """Totals over the steps since the last record; saved, so that a resumed run records the same."""

    loss: float = 0.0
    tokens: int = 0
    padding: float = 0.0
    seconds: float = 0.0
    steps: int = 0

    def __post_init__(self) -> None:
        self._unread: list[Report] = []

    def add(self, report: Report) -> None:
        # Read later, so that the step does not wait for the device.
        self._unread.append(report)

    def drop_after(self, step: int) -> None:
        """Drops reports of later steps, which the device started before divergence was noticed."""
        self._unread = [report for report in self._unread if report.step <= step]

    def read(self) -> "MetricWindow":
        """The same window, with all reports added to the totals."""
        for report in self._unread:
            self.loss += report.loss * report.tokens
            self.tokens += report.tokens
            self.padding += report.padding
            self.seconds += report.seconds
            self.steps += 1
        self._unread.clear()
        return self

    def record(self, last: Report) -> dict[str, float]:
        """Means over the window; learning rate and gradient norm of the last step."""
        self.read()
        return {
            "loss": self.loss / self.tokens,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens / self.seconds,
            "padding": self.padding / self.steps,
            "learning_rate": last.learning_rate,
            "gradient": last.gradient,
        }


class TrainingLoop:
    """A run's steps and the events between them."""

    def __init__(self, task: Task, model: nn.Module, context: RunContext):
        self.task, self.context = task, context
        self.ranks, self.states = context.ranks, context.states
        self.monitor = monitored(task)
        self.states.better = "higher" if self.monitor.higher_is_better else "lower"
        self.trainer = task.trainer(model, self.ranks)
        self.position: dict[str, int] = {}
        self.settings = _lasting_settings(task)
        self.early_stopping = EarlyStopping()
        self.window = MetricWindow()
        self.saved_at = perf_counter()
        self.cooled_down: dict[str, torch.Tensor] | None = None
        self.planned = False

    @property
    def config(self) -> TrainingConfig:
        """The settings of the run, with its present schedule and number of steps."""
        return self.trainer.config

    def events(self) -> Generator[Event, None, Finished]:
        saved = self.states.latest(self.trainer.parallel.allocate)
        if saved:
            self._load(saved)
            yield Note(f"resumed after step {self.trainer.step:,}{self._rank_change(len(saved['random']))}")
        elif self.context.budget and self.context.budget.max_steps is None:
            self.context.budget.max_steps = self.config.steps
        if self.ranks.count > 1:
            yield Note(
                f"ranks: {self.ranks.count} ({self.config.parallel}); a step takes "
                f"{counted(self.trainer.batches_per_step, 'batch')} over all ranks"
            )
        config, budget = self.config, self.context.budget
        self.pace = Pace(config.validate_every, config.save_every, budget.clock if budget else perf_counter)
        yield Started(self.trainer.step, config.steps, config.validate_every, config.save_every)
        if budget:
            self.next_check = self.trainer.step + STEPS_BEFORE_PLAN
            self.first_check = 0.9 * budget.seconds_left
            end = max(config.steps, self.trainer.step + 2 * STEPS_BEFORE_PLAN)
            yield from self._plan(min(end, budget.max_steps or end))
        self.feed = self._feed()
        out = self.context.out
        records = Records(out, self.trainer.step) if self.ranks.rank == 0 else NoRecords()
        try:
            with Interrupt() as interrupt:
                reason = yield from self._loop(records, interrupt)
        except DivergedError:
            self.window.drop_after(self.trainer.step)
            if not self.ranks.first(lambda: self.trainer.step in self.states.steps()):
                self._save(None, passing=True)
            raise
        finally:
            if isinstance(self.feed, Prefetcher):
                self.feed.close()
            records.close()
        return Finished(out, self.trainer.step, reason == INTERRUPTED, reason)

    def final_weights(self) -> dict[str, torch.Tensor]:
        """The weights of the finished model: the configured average, else the best, else the last.

        Rank 0 gets them; all ranks must call this together.
        """
        average, states, chosen, last = self.config.average, self.states, [], self.cooled_down
        if last is None:
            chosen = self.ranks.first(
                lambda: states.to_average(average) if average else states.best_weights(1)
            )
            last = {} if chosen else self.trainer.full_weights()
        if self.ranks.rank:
            return {}
        final = average_weights(chosen) if chosen else last
        share = self.config.init_share
        return interpolate(final, read_weights(states.folder / INITIAL), share) if share else final

    def publish(self, final: dict[str, torch.Tensor]) -> None:
        """Writes the finished model, its scores, its card and its curves."""
        out, step = self.context.out, self.trainer.step
        save_weights(final, out / WEIGHTS)
        model = self.trainer.parallel.model_with(final)
        scores = self.task.validate(model, self.trainer.autocast())
        add_final(out, step, scores)
        write_named(out / CARD, with_parents(self.task.card(model, step, scores), self.config.parents))
        draw_curves(out, self.task.metrics)

    def _rank_change(self, ranks: int) -> str:
        now, saved_by = self.ranks.count, counted(ranks, "rank")
        return f"; saved by {saved_by}, continued by {now} with new random numbers" if ranks != now else ""

    def _feed(self) -> Feed | Prefetcher:
        """The batches from the saved position on; for a GPU, prepared in the background."""
        rank, count = self.ranks.rank, self.ranks.count
        batches = self.task.batches(rank, count, self.trainer.batches_per_step)
        feed = Feed(batches.epoch, ranks=count, **self.position)
        if self.trainer.device.type != "cuda":
            return feed
        return Prefetcher(feed, lambda batch: batch.pin())

    def _loop(self, records: Records | NoRecords, interrupt: Interrupt) -> Generator[Event, None, str]:
        requests = self.ranks.stop_requests()
        for report in self._steps():
            config, step = self.config, report.step
            last = step == config.steps
            self.pace.step_done()
            self.window.add(report)
            intervals = (config.report_every, config.validate_every, config.save_every)
            # At the same steps in all ranks, so that all notice divergence together.
            if last or not all(step % every for every in intervals):
                self.trainer.synchronize()
            if step % config.report_every == 0 or last:
                records.add(step, "train", self.window.record(report))
                self.window = MetricWindow()
            yield report
            validation = None
            if step % config.validate_every == 0 or last:
                validation = yield from self._validated(step, records)
            due = bool(validation) or step % config.save_every == 0 or last
            overdue = perf_counter() - self.saved_at > 60 * config.save_minutes
            interrupted, overdue, terminated, behind = requests.poll(
                interrupt.requested, overdue, interrupt.terminated, self._plan_is_due(step)
            )
            if due or overdue or interrupted:
                yield from self._saved(validation, passing=not due)
            if interrupted:
                if self.context.decay_on_stop and not terminated and not last:
                    return (yield from self._cool_down(records, interrupt, requests))
                return INTERRUPTED
            if behind and not last:
                yield from self._replan(step)
        if self.trainer.step >= self.config.steps:
            budget = self.context.budget
            in_time = budget is None or self.trainer.step == budget.max_steps
            return "all steps are done" if in_time else "the time is over"
        return f"no improvement in {self.config.patience} validations"

    def _validated(
        self, step: int, records: Records | NoRecords
    ) -> Generator[Event, None, Validation | None]:
        validation = self._validate(step)
        if validation:
            records.add(step, "validation", validation.record())
            yield validation
        return validation

    def _saved(self, validation: Validation | None, passing: bool) -> Generator[Event, None, None]:
        self.trainer.synchronize()
        self._save(validation, passing)
        if validation and validation.best:
            best = self.trainer.full_weights()
            self.ranks.first(partial(save_weights, best, self.context.out / WEIGHTS))
        self.pace.pause_done(self.trainer.step)
        yield Saved(self.trainer.step)

    def _plan_is_due(self, step: int) -> bool:
        """Whether to compare the plan with the clock: soon if the first steps are very slow."""
        budget = self.context.budget
        if budget is None:
            return False
        return step >= self.next_check or (not self.planned and budget.seconds_left < self.first_check)

    def _replan(self, step: int) -> Generator[Event, None, None]:
        """Moves the end of the run to the step at which its time will be over."""
        budget = self.context.budget
        assert budget
        end = self.ranks.first(lambda: budget.end_of(step, self.pace))
        self.planned, self.next_check = True, budget.next_check(step, end)
        if budget.is_off(step, end, self.config.steps):
            yield from self._plan(end)

    def _plan(self, end: int) -> Generator[Event, None, None]:
        """Ends the run at a step, where the learning rate reaches zero; config.toml is changed first."""
        config, step = self.config, self.trainer.step
        self.trainer.reschedule(decaying_to(config.schedule, step, config.steps, end), end)
        recipe = self.task.recipe.model_copy(update={"training": self.config})
        self.ranks.first(lambda: write_named(self.context.out / SETTINGS, settings_toml(recipe)))
        if end != config.steps:
            yield Rescheduled(step, end)

    def _cool_down(
        self, records: Records | NoRecords, interrupt: Interrupt, requests: StopRequests
    ) -> Generator[Event, None, str]:
        """Decays the learning rate to zero and keeps the weights; the saved state is that from before it."""
        config, start = self.config, self.trainer.step
        steps = min(max(MIN_STOP_STEPS, round(STOP_SHARE * start)), config.steps - start)
        end = start + steps
        yield Note(f"stopping after a decay of {counted(steps, 'step')}; press Ctrl-C again to stop at once")
        self.trainer.reschedule(cooldown(config.schedule, start, config.steps, end), end)
        yield Rescheduled(start, end)
        for report in self.trainer.steps(self.feed):
            self.window.add(report)
            if report.step == end:
                self.trainer.synchronize()
                records.add(end, "train", self.window.record(report))
            yield report
            if requests.poll(False, False, interrupt.terminated, False)[2]:
                return INTERRUPTED
        validation = yield from self._validated(end, records)
        if validation is None or validation.best:
            self.cooled_down = self.trainer.full_weights()
        decay = f"a decay of {counted(steps, 'step')}"
        return f"stopped after {decay}; --resume continues from before it, step {start:,}"

    def _steps(self) -> Iterator[Any]:
        """Reports until the last step, or until validations stop improving."""
        reports = self.trainer.steps(self.feed)
        while not self.config.patience or self.early_stopping.waited < self.config.patience:
            report = next(reports, None)
            if report is None:
                return
            yield report

    def _validate(self, step: int) -> Validation | None:
        start = perf_counter()
        with self.trainer.evaluation_model() as model:
            scores = self.ranks.first(lambda: self.task.validate(model, self.trainer.autocast()))
        if not scores:
            return None
        if self.monitor.name not in scores:
            raise SettingsError(
                f"training.monitor: {self.monitor.name!r} is not measured in this run; choose from "
                f"{', '.join(scores)}"
            )
        best = self.early_stopping.improved(scores[self.monitor.name], self.monitor)
        return Validation(step, scores, best, perf_counter() - start, self.task.metrics)

    def _save(self, validation: Validation | None, passing: bool) -> None:
        stopping = {name: value for name, value in asdict(self.early_stopping).items() if value is not None}
        state = {
            "feed": self.feed.position,
            "window": asdict(self.window.read()),
            "early_stopping": stopping,
            "data": self.task.data_fingerprint,
            "settings": self.settings,
        }
        score = validation.scores.get(self.monitor.name) if validation else None
        self.states.save(self.trainer.state() | state, score, passing)
        self.saved_at = perf_counter()

    def _load(self, state: dict[str, Any]) -> None:
        changed = [name for name, value in self.settings.items() if state["settings"].get(name) != value]
        if changed:
            raise TrainingError(
                f"{changed[0]}: has changed since the run started; change it back, or use another folder"
            )
        if state["data"] != self.task.data_fingerprint:
            raise TrainingError(
                "data: the files have changed since the run started; restore them, or use another folder"
            )
        self.trainer.load_state(state)
        self.position = state["feed"]
        self.early_stopping = EarlyStopping(**state["early_stopping"])
        self.window = MetricWindow(**state["window"])


def monitored(task: Task) -> Metric:
    """The metric that selects the best weights."""
    name, metrics = task.recipe.training.monitor, {metric.name: metric for metric in task.metrics}
    if name not in metrics:
        raise SettingsError(f"training.monitor: {name!r} is not one of {', '.join(metrics)}")
    return metrics[name]


def _lasting_settings(task: Task) -> dict[str, Any]:
    """The settings that must not change on resume, by path."""
    groups = task.recipe.resume_settings().items()
    named = {f"{group}.{name}": value for group, settings in groups for name, value in settings.items()}
    return {path: value for path, value in named.items() if path not in CHANGEABLE}

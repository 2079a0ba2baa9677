"""The steps of a run and the occasions between them: report, validate, save, publish, stop."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from clearhead.checkpoint import WEIGHTS, save_weights
from clearhead.errors import TrainingError
from clearhead.tasks.events import Begun, Event, Finished, Note, Saved, Validation
from clearhead.tasks.recipes import Recipe
from clearhead.tasks.records import NoRecords, Records
from clearhead.tasks.task import Epochs, Loss, Measure
from clearhead.training import (
    DivergedError,
    Feed,
    Interrupt,
    Prefetcher,
    Ranks,
    Report,
    StateFolder,
    Trainer,
    average_weights,
)

INTERRUPTED = "interrupted"
# What a resumed run may change: where, how long and how often; and what may save a run that diverged.
CHANGEABLE = (
    "average",
    "clip_norm",
    "device",
    "keep_best",
    "keep_last",
    "parallel",
    "patience",
    "report_every",
    "save_every",
    "save_minutes",
    "schedule",
    "steps",
)


@dataclass(frozen=True)
class TrainData:
    """What there is to learn from, and how it is shared among the ranks."""

    batches: Callable[[int, int, int], Epochs]
    """those of a rank, of so many, when so many of all make a step"""
    files: Any
    """by which the files of the corpus are known again"""
    ranks: Ranks

    def feed(self, batches_per_step: int, number: int = 0, consumed: int = 0) -> Feed:
        """This rank's batches from a place in the data on, when so many of all ranks make a step."""
        rank, count = self.ranks.rank, self.ranks.count
        return Feed(self.batches(rank, count, batches_per_step).epoch, number, consumed, count)


@dataclass
class EarlyStopping:
    """The best validation so far, and how many have passed since."""

    best: float | None = None
    waited: int = 0

    def improved(self, score: float, higher_is_better: bool) -> bool:
        """Whether a new score is the best; remembers it."""
        better = self.best is None or (score > self.best if higher_is_better else score < self.best)
        better = better and isfinite(score)
        self.best, self.waited = (score, 0) if better else (self.best, self.waited + 1)
        return better


@dataclass
class MetricWindow:
    """The steps since the last measurement; saved, so that a resumed run measures the same."""

    loss: float = 0.0
    tokens: int = 0
    padding: float = 0.0
    seconds: float = 0.0
    steps: int = 0

    def __post_init__(self) -> None:
        self._unread: list[Report] = []

    def add(self, report: Report) -> None:
        # Read when the numbers are wanted: until then, no device need be waited for.
        self._unread.append(report)

    def take_back(self, after: int) -> None:
        """Leaves out the steps after one: those that a device had begun before one was found to be broken."""
        self._unread = [report for report in self._unread if report.step <= after]

    def read(self) -> "MetricWindow":
        """The same, with all reports taken in."""
        for report in self._unread:
            self.loss += report.loss * report.tokens
            self.tokens += report.tokens
            self.padding += report.padding
            self.seconds += report.seconds
            self.steps += 1
        self._unread.clear()
        return self

    def measurement(self, last: Report) -> dict[str, float]:
        """Means over the stretch, where a mean says more than the last step."""
        self.read()
        return {
            "loss": self.loss / self.tokens,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens / self.seconds,
            "padding": self.padding / self.steps,
            "learning_rate": last.learning_rate,
            "gradient": last.gradient,
        }


class Run:
    """The training loop and the occasions in it: report, validate, save, publish, stop."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        loss: Loss,
        lessons: TrainData,
        validator: Measure | None,
        states: StateFolder,
    ):
        self.config, self.validator, self.states = recipe.training, validator, states
        self.lessons, self.ranks = lessons, lessons.ranks
        self.trainer = Trainer(model, loss, recipe.training, self.ranks)
        self.place: dict[str, int] = {}
        self.settings = _lasting(recipe)
        self.standing = EarlyStopping()
        self.stretch = MetricWindow()
        self.saved_at = perf_counter()

    def events(self, out: Path) -> Generator[Event, None, Finished]:
        saved = self.states.latest(self.trainer.parallel.allocate)
        if saved:
            self._load(saved)
            yield Note(f"resumed after step {self.trainer.step:,}{self._since(len(saved['random']))}")
        if self.ranks.count > 1:
            has = "a copy" if self.config.parallel == "data_parallel" else "a shard"
            batches = f"{self.trainer.batches_per_step} batches"
            yield Note(
                f"ranks: {self.ranks.count}, each with {has} of the model; a step takes {batches} of all"
            )
        yield Begun(self.trainer.step, self.config.steps)
        self.feed = self._fed()
        records = Records(out, self.trainer.step) if self.ranks.rank == 0 else NoRecords()
        try:
            with Interrupt() as interrupt:
                reason = yield from self._loop(out, records, interrupt)
        except DivergedError:
            self.stretch.take_back(after=self.trainer.step)
            if not self.ranks.first(lambda: self.trainer.step in self.states.steps()):
                self._save(None, passing=True)
            raise
        finally:
            if isinstance(self.feed, Prefetcher):
                self.feed.close()
            records.close()
        return Finished(out, self.trainer.step, reason == INTERRUPTED, reason)

    def _since(self, ranks: int) -> str:
        now, saving = self.ranks.count, f"{ranks} rank{'s' if ranks > 1 else ''}"
        return f"; saved by {saving}, going on with {now}: new random numbers" if ranks != now else ""

    def final_weights(self) -> dict[str, torch.Tensor]:
        """What is published at the end: the average that was asked for, else the best, else the last.

        In rank 0; all ranks ask for it together.
        """
        average, states = self.config.average, self.states
        chosen = self.ranks.first(lambda: states.to_average(average) if average else states.best_weights(1))
        if not chosen:
            return self.trainer.full_weights()
        return average_weights(chosen) if self.ranks.rank == 0 else {}

    def _fed(self) -> Feed | Prefetcher:
        """The batches from the run's place on; for a GPU they are made ready in the background."""
        feed = self.lessons.feed(self.trainer.batches_per_step, **self.place)
        if self.trainer.device.type != "cuda":
            return feed
        return Prefetcher(feed, lambda batch: batch.map(torch.Tensor.pin_memory))

    def _loop(
        self, out: Path, records: Records | NoRecords, interrupt: Interrupt
    ) -> Generator[Event, None, str]:
        config, stop_requests = self.config, self.ranks.stop_requests()
        for report in self._steps():
            step = report.step
            last = step == config.steps
            self.stretch.add(report)
            occasions = (config.report_every, config.validate_every, config.save_every)
            # At the same steps in all ranks: a broken one is then noticed by all of them at once.
            if last or not all(step % every for every in occasions):
                self.trainer.synchronize()
            if step % config.report_every == 0 or last:
                records.add(step, "train", self.stretch.measurement(report))
                self.stretch = MetricWindow()
            yield report
            validation = self._validate(step) if step % config.validate_every == 0 or last else None
            if validation:
                records.add(step, "validation", validation.measurement())
                yield validation
            in_turn = bool(validation) or step % config.save_every == 0 or last
            overdue = perf_counter() - self.saved_at > 60 * config.save_minutes
            interrupted, overdue = stop_requests.poll(interrupt.requested, overdue)
            if in_turn or overdue or interrupted:
                self.trainer.synchronize()
                self._save(validation, passing=not in_turn)
                yield Saved(step)
            if validation and validation.best:
                self._publish_best(out / WEIGHTS)
            if interrupted:
                return INTERRUPTED
        return "all steps are done" if self.trainer.step >= config.steps else "no improvement any more"

    def _publish_best(self, path: Path) -> None:
        best = self.trainer.full_weights()
        self.ranks.first(lambda: save_weights(best, path))

    def _steps(self) -> Iterator[Any]:
        """Reports for as long as there are steps and patience left."""
        reports = self.trainer.steps(self.feed)
        while not self.config.patience or self.standing.waited < self.config.patience:
            report = next(reports, None)
            if report is None:
                return
            yield report

    def _validate(self, step: int) -> Validation | None:
        if self.validator is None:
            return None
        began, measure = perf_counter(), self.validator.measure
        with self.trainer.evaluation_model() as model:
            scores = self.ranks.first(lambda: measure(model, self.trainer.autocast()))
        # Settings see to it that BLEU is measured where the run is judged by it.
        judged_by = self.config.monitor
        best = self.standing.improved(scores[judged_by], higher_is_better=judged_by == "bleu")
        return Validation(step, scores, best, perf_counter() - began)

    def _save(self, validation: Validation | None, passing: bool) -> None:
        standing = {name: value for name, value in asdict(self.standing).items() if value is not None}
        place = {"feed": self.feed.position, "stretch": asdict(self.stretch.read()), "standing": standing}
        made_with = {"files": self.lessons.files, "settings": self.settings}
        score = validation.scores.get(self.config.monitor) if validation else None
        self.states.save(self.trainer.state() | place | made_with, score, passing)
        self.saved_at = perf_counter()

    def _load(self, state: dict[str, Any]) -> None:
        if changed_settings := [
            name for name in self.settings if state["settings"][name] != self.settings[name]
        ]:
            raise TrainingError(
                f"{changed_settings[0]}: changed since the run began; put it back, or start anew elsewhere"
            )
        if state["files"] != self.lessons.files:
            raise TrainingError(
                "data: the files have changed since the run began; bring the old ones back, or start anew "
                "in another folder"
            )
        self.trainer.load_state(state)
        self.place = state["feed"]
        self.standing = EarlyStopping(**state["standing"])
        self.stretch = MetricWindow(**state["stretch"])


def _lasting(recipe: Recipe) -> dict[str, Any]:
    """The settings that a run must keep, by path; files are known by their content instead."""
    groups = recipe.model_dump(mode="json", exclude={"kind", "data", "search"})
    groups["data"] = recipe.data.without_files()
    named = {
        f"{group}.{name}": value for group, settings in groups.items() for name, value in settings.items()
    }
    ours = {f"training.{name}" for name in CHANGEABLE}
    return {path: value for path, value in named.items() if path not in ours}

"""The story of a training run: text in, a model's folder out, and nothing lost on the way."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import torch

from clearhead.checkpoint import CARD, SETTINGS, TOKENIZER, WEIGHTS, save_weights, set_weights
from clearhead.config import changed, parse_settings, read_toml, settings_toml
from clearhead.data.batching import Batches
from clearhead.data.corpus import Pair, check_files
from clearhead.data.packing import PackedBatches
from clearhead.data.splitting import Splitting
from clearhead.data.store import PairStore
from clearhead.errors import SettingsError, TrainingError
from clearhead.models import Translator
from clearhead.tasks.card import model_card
from clearhead.tasks.directions import file_name
from clearhead.tasks.events import Begun, Event, Finished, Note, Saved, Validation
from clearhead.tasks.objective import TranslationLoss
from clearhead.tasks.preparation import Corpus, learn_tokenizer, store, tally
from clearhead.tasks.recipe import TranslationRecipe
from clearhead.tasks.records import Records, add_final, draw_curves, naming
from clearhead.tasks.validator import Validator
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import (
    Ahead,
    Criterion,
    DivergedError,
    Feed,
    Interrupt,
    Report,
    StateFolder,
    Trainer,
    average_weights,
)
from clearhead.training.devices import on_gpu
from clearhead.writing import temporary_name, write_text

STATES = "training"
# What a resumed run may change: how long and how often; and what may save a run that diverged.
CHANGEABLE = (
    "average",
    "clip",
    "keep_best",
    "keep_last",
    "patience",
    "report_every",
    "save_every",
    "save_minutes",
    "schedule",
    "steps",
)


def train(recipe: TranslationRecipe, out: Path) -> Iterator[Event]:
    """Trains a translator into a new folder; the events tell how it goes."""
    anchored = recipe.model_copy(update={"data": recipe.data.anchored()})
    recipe = anchored.settled(on_gpu(recipe.training.device))
    with StateFolder.of(out / STATES, recipe.training) as states:
        if states.steps() or (out / WEIGHTS).exists():
            raise TrainingError(
                f"{out}: holds a run already; go on with it (--resume), or choose another folder"
            )
        _write(out / SETTINGS, settings_toml(recipe))
        (out / TOKENIZER).unlink(missing_ok=True)
        yield from _run(recipe, out, states)


def resume(out: Path, changes: Sequence[str] = ()) -> Iterator[Event]:
    """Goes on with the run in a folder as if it had never stopped; a change is 'training.steps=9'."""
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume here, {SETTINGS} is missing")
    recipe = _resumed(out, changes)
    with StateFolder.of(out / STATES, recipe.training) as states:
        _write(out / SETTINGS, settings_toml(recipe))
        yield from _run(recipe, out, states)


def _resumed(out: Path, changes: Sequence[str]) -> TranslationRecipe:
    for change in changes:
        group, _, name = change.partition("=")[0].strip().partition(".")
        if group != "training" or name.partition(".")[0] not in CHANGEABLE:
            allowed = ", ".join(f"training.{setting}" for setting in CHANGEABLE)
            raise SettingsError(f"--set {change}: a resumed run keeps its settings but for {allowed}")
    saved = read_toml(out / SETTINGS)
    return parse_settings(TranslationRecipe, changed(saved, changes), place=str(out / SETTINGS))


def _run(recipe: TranslationRecipe, out: Path, states: StateFolder) -> Iterator[Event]:
    """Prepares the data, then trains; what an earlier try has prepared is not made again."""
    for leftover in out.glob(temporary_name(Path("*")).name):
        leftover.unlink()  # half-written when an earlier try was killed
    corpus = Corpus(recipe.data, recipe.training.seed)
    check_files(recipe.data.places)
    example = next(corpus.examples())
    yield Note(f"for example: {example.source} -> {example.target}")
    if not (out / TOKENIZER).exists():
        yield Note("learning the tokenizer …")
        learned = learn_tokenizer(corpus, recipe)
        with naming(out / TOKENIZER):
            learned.save(out / TOKENIZER)
    tokenizer = Tokenizer.load(out / TOKENIZER)
    shared = "both" if len(recipe.data.languages) == 2 else f"all {len(recipe.data.languages)}"
    yield Note(
        f"tokenizer: {tokenizer.size:,} tokens ({recipe.tokenizer.kind}), shared by {shared} languages"
    )

    yield Note("reading, cleaning and tokenising the pairs …")
    pairs = store(corpus, "train", tokenizer, recipe)
    directions = recipe.data.directions
    ways = f" in {len(directions)} directions" if len(directions) > 1 else ""
    yield Note(f"pairs to train on: {len(pairs):,}{ways} ({tally(pairs)})")
    held_out = corpus.by_direction("validation")
    for part, kept in (("validation", held_out), ("test", corpus.by_direction("test"))):
        for direction, some in kept.items():
            _write(out / file_name(part, direction, directions), _tsv(some))

    torch.manual_seed(recipe.training.seed)
    model = Translator(recipe.model, tokenizer.size)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    yield Note(f"model: {parameters:,} parameters")
    validator = Validator(held_out, tokenizer, recipe) if any(held_out.values()) else None
    encode = _splitting(pairs, tokenizer, recipe) if recipe.tokenizer.dropout else None
    kind = PackedBatches if recipe.batches.kind == "packed" else Batches
    batches = kind(pairs, recipe.batches, recipe.training.seed, encode=encode)
    criterion = Criterion(recipe.training.smoothing, recipe.training.regulariser)
    loss = TranslationLoss(criterion, first_word=len(tokenizer.specials))
    run = Run(recipe, model, batches, validator, states, loss)
    finished = yield from run.events(out)
    if not finished.interrupted:
        final = run.final_weights()
        save_weights(final, out / WEIGHTS)
        set_weights(model, final, place="the final weights")
        scores = validator.measure(model, run.trainer.autocast()) if validator else {}
        add_final(out, finished.step, scores)
        _write(out / CARD, model_card(recipe, parameters, finished.step, scores))
        draw_curves(out)
    yield finished


@dataclass
class Standing:
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
class Stretch:
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

    def read(self) -> "Stretch":
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
            "rate": last.rate,
            "gradient": last.gradient,
        }


class Run:
    """The training loop and the occasions in it: report, validate, save, publish, stop."""

    def __init__(
        self,
        recipe: TranslationRecipe,
        model: Translator,
        batches: Batches | PackedBatches,
        validator: Validator | None,
        states: StateFolder,
        loss: TranslationLoss,
    ):
        self.config, self.model, self.validator, self.states = recipe.training, model, validator, states
        self.trainer = Trainer(model, cast(Any, loss), recipe.training, recipe.model.width)
        self.epoch = batches.epoch
        self.place: dict[str, int] = {}
        self.files = batches.store.meta["content"]["files"]
        self.settings = _lasting(recipe)
        self.standing = Standing()
        self.stretch = Stretch()
        self.saved_at = perf_counter()

    def events(self, out: Path) -> Generator[Event, None, Finished]:
        saved = self.states.latest()
        if saved:
            self._load(saved)
            yield Note(f"resumed after step {self.trainer.step:,}")
        yield Begun(self.trainer.step, self.config.steps)
        self.feed = self._fed()
        records = Records(out, self.trainer.step)
        try:
            with Interrupt() as interrupt:
                reason = yield from self._loop(out, records, interrupt)
        except DivergedError:
            if self.trainer.step not in self.states.steps():
                self._save(None, passing=True)
            raise
        finally:
            if isinstance(self.feed, Ahead):
                self.feed.close()
            records.close()
        return Finished(out, self.trainer.step, interrupt.requested, reason)

    def final_weights(self) -> dict[str, torch.Tensor]:
        """What is published at the end: the average that was asked for, else the best, else the last."""
        average = self.config.average
        chosen = self.states.to_average(average) if average else self.states.best_weights(1)
        return average_weights(chosen) if chosen else self.trainer.weights()

    def _fed(self) -> Feed | Ahead:
        """The batches from the run's place on; for a GPU they are made ready in the background."""
        feed = Feed(self.epoch, **self.place)
        if self.trainer.device.type != "cuda":
            return feed
        return Ahead(feed, lambda batch: batch.each(torch.Tensor.pin_memory))

    def _loop(self, out: Path, records: Records, interrupt: Interrupt) -> Generator[Event, None, str]:
        config = self.config
        for report in self._steps():
            step = report.step
            last = step == config.steps
            self.stretch.add(report)
            occasions = (config.report_every, config.validate_every, config.save_every)
            if last or interrupt.requested or not all(step % every for every in occasions):
                self.trainer.settle()
            if step % config.report_every == 0 or last:
                records.add(step, "train", self.stretch.measurement(report))
                self.stretch = Stretch()
            yield report
            validation = self._validate(step) if step % config.validate_every == 0 or last else None
            if validation:
                records.add(step, "validation", validation.measurement())
                yield validation
            in_turn = bool(validation) or step % config.save_every == 0 or last
            overdue = perf_counter() - self.saved_at > 60 * config.save_minutes
            if in_turn or overdue or interrupt.requested:
                self.trainer.settle()
                self._save(validation, passing=not in_turn)
                yield Saved(step)
            if validation and validation.best:
                save_weights(self.trainer.weights(), out / WEIGHTS)
            if interrupt.requested:
                return "interrupted"
        return "all steps are done" if self.trainer.step >= config.steps else "no improvement any more"

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
        began = perf_counter()
        average = self.trainer.average
        with average.swapped() if average else nullcontext():
            scores = self.validator.measure(self.model, self.trainer.autocast())
        # Settings see to it that BLEU is measured where the run is judged by it.
        judged_by = self.config.stop_on
        best = self.standing.improved(scores[judged_by], higher_is_better=judged_by == "bleu")
        by_direction = {name[5:]: value for name, value in scores.items() if name.startswith("bleu ")}
        took = perf_counter() - began
        return Validation(step, scores["loss"], scores.get("bleu"), best, took, by_direction)

    def _save(self, validation: Validation | None, passing: bool) -> None:
        standing = {name: value for name, value in asdict(self.standing).items() if value is not None}
        place = {"feed": self.feed.position, "stretch": asdict(self.stretch.read()), "standing": standing}
        made_with = {"files": self.files, "settings": self.settings}
        score = getattr(validation, self.config.stop_on, None)
        self.states.save(self.trainer.state() | place | made_with, score, passing)
        self.saved_at = perf_counter()

    def _load(self, state: dict[str, Any]) -> None:
        if changed_settings := [
            name for name in self.settings if state["settings"][name] != self.settings[name]
        ]:
            raise TrainingError(
                f"{changed_settings[0]}: changed since the run began; put it back, or start anew elsewhere"
            )
        if state["files"] != self.files:
            raise TrainingError(
                "data: the files have changed since the run began; bring the old ones back, or start anew "
                "in another folder"
            )
        self.trainer.load_state(state)
        self.place = state["feed"]
        self.standing = Standing(**state["standing"])
        self.stretch = Stretch(**state["stretch"])


def _splitting(pairs: PairStore, tokenizer: Tokenizer, recipe: TranslationRecipe) -> Splitting:
    dropout, seed = recipe.tokenizer.dropout, recipe.training.seed
    return Splitting(pairs, tokenizer, dropout, seed, recipe.model.most_words)


def _lasting(recipe: TranslationRecipe) -> dict[str, Any]:
    """The settings that a run must keep, by path; files are known by their content instead."""
    groups = recipe.model_dump(mode="json", exclude={"kind", "data", "search"})
    groups["data"] = recipe.data.without_files()
    named = {
        f"{group}.{name}": value for group, settings in groups.items() for name, value in settings.items()
    }
    ours = {f"training.{name}" for name in (*CHANGEABLE, "device")}
    return {path: value for path, value in named.items() if path not in ours}


def _tsv(pairs: Iterable[Pair]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def _write(path: Path, text: str) -> None:
    with naming(path):
        write_text(path, text)

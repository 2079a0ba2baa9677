"""Training runs: from a recipe to a model's folder, resumable after a crash at any moment."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead import tasks
from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.config import apply_overrides, read_toml, settings_toml
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import SettingsError, TrainingError
from clearhead.files import leftover_files
from clearhead.models import MODELS
from clearhead.tasks.events import Event, Note
from clearhead.tasks.loop import CHANGEABLE
from clearhead.tasks.recipe import Recipe, parse_recipe
from clearhead.tasks.records import write_named
from clearhead.tasks.task import ONE_STEP, RunContext, Task
from clearhead.tasks.zoo import task_of
from clearhead.training import StateFolder, TimeBudget, join_ranks
from clearhead.training.devices import on_gpu
from clearhead.training.schedule import rescaled

STATES = "training"
# The file that a run creates first, and locks while it trains.
LOCK = "lock"


def train(
    recipe: Recipe,
    out: Path | str,
    progress: ProgressCallback = ignore_progress,
    budget: TimeBudget | None = None,
    decay_on_stop: bool = False,
) -> Iterator[Event]:
    """Trains a model into a new folder, reporting events; `progress` follows the reading of files.

    A time budget decides the number of steps, at most those of the recipe, and the schedule follows; both
    are written to the folder's settings. With `decay_on_stop`, Ctrl-C decays the learning rate to zero
    before the run stops.

    Under torchrun all processes train together: rank 0 does what is done once, and every rank reports the
    same events.
    """
    out = Path(out)
    recipe = recipe.absolute().inherited().resolved(on_gpu(recipe.training.device))
    with join_ranks(recipe.training.device) as ranks:
        ranks.first(lambda: check_new_run(out))
        with StateFolder.of(out / STATES, recipe.training, ranks) as states:
            ranks.share(ranks.batches_per_step(recipe.training.accumulate))
            ranks.first(lambda: _start(recipe, out))
            yield from _run(recipe, RunContext(out, ranks, states, progress, budget, decay_on_stop))


def resume(
    out: Path,
    changes: Sequence[str] = (),
    progress: ProgressCallback = ignore_progress,
    budget: TimeBudget | None = None,
    decay_on_stop: bool = False,
) -> Iterator[Event]:
    """Continues the run in a folder as if it had never stopped; a change is 'training.steps=9'.

    With a time budget, the run continues for that time; its schedule then ends there.
    """
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume, {SETTINGS} is missing")
    if (out / WEIGHTS).exists() and not StateFolder(out / STATES).steps():
        if tasks.TASKS[task_of(read_toml(out / SETTINGS))].fit is not Task.fit:
            raise TrainingError(f"{out}: is complete; there is nothing to resume")
        raise TrainingError(
            f"{out}: holds a model but no state to resume from; start another run from its weights: "
            f"--set training.init_from={out}"
        )
    recipe, note = _resumed(out, changes)
    if note:
        yield Note(note)
    with (
        join_ranks(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks) as states,
    ):
        ranks.first(lambda: write_named(out / SETTINGS, settings_toml(recipe)))
        yield from _run(recipe, RunContext(out, ranks, states, progress, budget, decay_on_stop))


def check_new_run(out: Path) -> None:
    """Refuses a folder that holds a run, or anything that a run did not write."""
    if not out.is_dir():
        return
    if (out / STATES / LOCK).exists():
        # Raises if a process is training here.
        with StateFolder(out / STATES):
            pass
    elif any(out.iterdir()) and not (out / WEIGHTS).exists():
        raise TrainingError(f"{out}: is not empty and holds no run; choose a new folder")
    _check_no_states(out)


def _check_no_states(out: Path) -> None:
    if StateFolder(out / STATES).steps() or (out / WEIGHTS).exists():
        raise TrainingError(
            f"{out}: already holds a run; continue it with --resume, or choose another folder"
        )


def _start(recipe: Recipe, out: Path) -> None:
    """Writes the settings, after removing files of an earlier attempt that may not fit them."""
    # Another process may have trained here before this one got the lock.
    _check_no_states(out)
    processor = MODELS[recipe.model.kind].Processor
    for left in ([out / processor.FILE] if processor else []) + list(out.glob("validation.*")):
        left.unlink(missing_ok=True)
    write_named(out / SETTINGS, settings_toml(recipe))


def _resumed(out: Path, changes: Sequence[str]) -> tuple[Any, str]:
    """The recipe of a run with changes, and what a changed number of steps means for its schedule."""
    paths = [".".join(change.partition("=")[0].strip().split(".")[:2]) for change in changes]
    for path, change in zip(paths, changes, strict=True):
        if path not in CHANGEABLE:
            raise SettingsError(f"--set {change}: a resumed run may change only {', '.join(CHANGEABLE)}")
    saved = read_toml(out / SETTINGS)
    recipe = parse_recipe(apply_overrides(saved, changes), location=str(out / SETTINGS))
    note, training = "", recipe.training
    if "training.steps" in paths and "training.schedule" not in paths:
        before, done = parse_recipe(saved).training.steps, max(StateFolder(out / STATES).steps(), default=0)
        if done < training.steps != before:
            schedule, note = rescaled(training.schedule, done, before, training.steps)
            recipe = recipe.model_copy(
                update={"training": training.model_copy(update={"schedule": schedule})}
            )
    return recipe.resolved(on_gpu(recipe.training.device)), note


def _run(recipe: Recipe, context: RunContext) -> Iterator[Event]:
    """Prepares the data, then trains; reuses what an earlier attempt prepared."""
    task = tasks.TASKS[recipe.kind](recipe)
    context.ranks.first(lambda: _remove_half_written(context.out))
    yield from task.prepare(context)
    finished = yield from task.fit(context)
    if context.budget and finished.step == ONE_STEP:
        yield Note(
            f"--minutes: a model of kind {recipe.model.kind!r} is fitted in one pass, whatever its time"
        )
    yield finished


def _remove_half_written(out: Path) -> None:
    for leftover in leftover_files(out):
        leftover.unlink()

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
from clearhead.tasks.events import Event
from clearhead.tasks.loop import CHANGEABLE
from clearhead.tasks.recipe import Recipe, parse_recipe
from clearhead.tasks.records import write_named
from clearhead.tasks.task import RunContext, Task
from clearhead.tasks.zoo import task_of
from clearhead.training import StateFolder, join_ranks
from clearhead.training.devices import on_gpu

STATES = "training"
# The file that a run creates first, and locks while it trains.
LOCK = "lock"


def train(recipe: Recipe, out: Path | str, progress: ProgressCallback = ignore_progress) -> Iterator[Event]:
    """Trains a model into a new folder, reporting events; `progress` follows the reading of files.

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
            yield from _run(recipe, RunContext(out, ranks, states, progress))


def resume(
    out: Path, changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> Iterator[Event]:
    """Continues the run in a folder as if it had never stopped; a change is 'training.steps=9'."""
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume, {SETTINGS} is missing")
    if (out / WEIGHTS).exists() and not StateFolder(out / STATES).steps():
        if tasks.TASKS[task_of(read_toml(out / SETTINGS))].fit is not Task.fit:
            raise TrainingError(f"{out}: is complete; there is nothing to resume")
        raise TrainingError(
            f"{out}: holds a model but no state to resume from; start another run from its weights: "
            f"--set training.init_from={out}"
        )
    recipe = _resumed(out, changes)
    with (
        join_ranks(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks) as states,
    ):
        ranks.first(lambda: write_named(out / SETTINGS, settings_toml(recipe)))
        yield from _run(recipe, RunContext(out, ranks, states, progress))


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


def _resumed(out: Path, changes: Sequence[str]) -> Any:
    for change in changes:
        path = ".".join(change.partition("=")[0].strip().split(".")[:2])
        if path not in CHANGEABLE:
            raise SettingsError(f"--set {change}: a resumed run may change only {', '.join(CHANGEABLE)}")
    settings = apply_overrides(read_toml(out / SETTINGS), changes)
    recipe = parse_recipe(settings, location=str(out / SETTINGS))
    return recipe.resolved(on_gpu(recipe.training.device))


def _run(recipe: Recipe, context: RunContext) -> Iterator[Event]:
    """Prepares the data, then trains; reuses what an earlier attempt prepared."""
    task = tasks.TASKS[recipe.kind](recipe)
    context.ranks.first(lambda: _remove_half_written(context.out))
    yield from task.prepare(context)
    yield (yield from task.fit(context))


def _remove_half_written(out: Path) -> None:
    for leftover in leftover_files(out):
        leftover.unlink()

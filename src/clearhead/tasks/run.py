"""The story of a training run: text in, a model's folder out, and nothing lost on the way."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from clearhead.checkpoint import CARD, SETTINGS, TOKENIZER, WEIGHTS, save_weights
from clearhead.config import changed, read_toml, settings_toml
from clearhead.data.progress import ProgressCallback, followed, unfollowed
from clearhead.errors import SettingsError, TrainingError
from clearhead.files import half_written
from clearhead.models import build
from clearhead.tasks.events import Event, Note
from clearhead.tasks.init_from import inherited, inherited_tokenizer, init_weights_from
from clearhead.tasks.language.recipe import LanguageRecipe
from clearhead.tasks.language.task import VALIDATION, Modelling
from clearhead.tasks.loop import CHANGEABLE, Run, TrainData
from clearhead.tasks.recipes import Recipe, parse_recipe
from clearhead.tasks.records import add_final, draw_curves, naming, write_named
from clearhead.tasks.task import Task
from clearhead.tasks.translation.recipe import TranslationRecipe
from clearhead.tasks.translation.task import Translating
from clearhead.text.tokenizer import Tokenizer
from clearhead.training import Ranks, StateFolder, TrainingConfig, join_ranks
from clearhead.training.devices import on_gpu

STATES = "training"


def train(recipe: Recipe, out: Path, follow: ProgressCallback = unfollowed) -> Iterator[Event]:
    """Trains a model into a new folder; the events tell how it goes, and `follow` hears what is read.

    Under torchrun all its processes train together: rank 0 does what is done once, and every rank tells of
    the same events.
    """
    anchored = recipe.model_copy(update={"data": recipe.data.anchored()})
    recipe = inherited(anchored).settled(on_gpu(recipe.training.device))
    with (
        join_ranks(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks, _better(recipe.training)) as states,
    ):
        ranks.share(ranks.batches_per_step(recipe.training.accumulate))
        ranks.first(lambda: _begin(recipe, out))
        yield from _run(recipe, out, states, ranks, follow)


def resume(out: Path, changes: Sequence[str] = (), follow: ProgressCallback = unfollowed) -> Iterator[Event]:
    """Goes on with the run in a folder as if it had never stopped; a change is 'training.steps=9'."""
    if not (out / SETTINGS).exists():
        raise TrainingError(f"{out}: no run to resume here, {SETTINGS} is missing")
    if (out / WEIGHTS).exists() and not StateFolder(out / STATES).steps():
        raise TrainingError(
            f"{out}: holds a model, but no state of a run to resume; train on from its weights in another "
            f"folder: --set training.init_from={out}"
        )
    recipe = _resumed(out, changes)
    with (
        join_ranks(recipe.training.device) as ranks,
        StateFolder.of(out / STATES, recipe.training, ranks, _better(recipe.training)) as states,
    ):
        ranks.first(lambda: write_named(out / SETTINGS, settings_toml(recipe)))
        yield from _run(recipe, out, states, ranks, follow)


def check_free(out: Path) -> None:
    """Refuses a folder in which there is a run."""
    if StateFolder(out / STATES).steps() or (out / WEIGHTS).exists():
        raise TrainingError(f"{out}: holds a run already; go on with it (--resume), or choose another folder")


def _begin(recipe: Recipe, out: Path) -> None:
    check_free(out)
    write_named(out / SETTINGS, settings_toml(recipe))
    for left in (TOKENIZER, VALIDATION):
        (out / left).unlink(missing_ok=True)


def _resumed(out: Path, changes: Sequence[str]) -> Recipe:
    for change in changes:
        group, _, name = change.partition("=")[0].strip().partition(".")
        if group != "training" or name.partition(".")[0] not in CHANGEABLE:
            allowed = ", ".join(f"training.{setting}" for setting in CHANGEABLE)
            raise SettingsError(f"--set {change}: a resumed run keeps its settings but for {allowed}")
    recipe = parse_recipe(changed(read_toml(out / SETTINGS), changes), place=str(out / SETTINGS))
    return recipe.settled(on_gpu(recipe.training.device))


def _better(training: TrainingConfig) -> Literal["lower", "higher"]:
    return "higher" if training.monitor == "bleu" else "lower"


def task_of(recipe: Recipe) -> Task:
    """What a recipe trains a model for."""
    match recipe:
        case TranslationRecipe():
            return Translating(recipe)
        case LanguageRecipe():
            return Modelling(recipe)


def _run(
    recipe: Recipe, out: Path, states: StateFolder, ranks: Ranks, follow: ProgressCallback
) -> Iterator[Event]:
    """Prepares the data, then trains; what an earlier try has prepared is not made again."""
    task = task_of(recipe)
    yield Note(f"for example: {task.check()}")
    if ranks.first(lambda: _tidied(out)):
        inherited = inherited_tokenizer(recipe.training)
        yield Note("taking over a tokenizer …" if inherited else "learning the tokenizer …")
        with followed(task.paths(), follow):
            ranks.first(task.split)
        ranks.first(lambda: _keep(inherited or task.learn_tokenizer(), out / TOKENIZER))
    tokenizer = Tokenizer.load(out / TOKENIZER)
    yield Note(f"tokenizer: {task.about_tokenizer(tokenizer)}")

    yield Note(task.reading)
    # Rank 0 makes what the others then find; on another machine, one of those there makes it again.
    with followed(task.paths(), follow):
        ranks.first(lambda: len(task.store(tokenizer)))
        store = task.store(tokenizer)
    yield Note(task.about_store(store))
    held_out = ranks.first(lambda: task.hold_out(tokenizer, out))

    torch.manual_seed(recipe.training.seed)
    model = build(recipe.model, tokenizer)
    if recipe.training.init_from and not states.steps():
        init_weights_from(model, Path(recipe.training.init_from))
    yield Note(f"model: {sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    validator = task.validator(held_out, tokenizer)
    lessons = TrainData(partial(task.batches, store, tokenizer), task.files(store), ranks)
    run = Run(recipe, model, task.loss(tokenizer), lessons, validator, states)
    if recipe.training.compile == "on":
        yield Note("the first step compiles the model, which can take a minute …")
    finished = yield from run.events(out)
    if not finished.interrupted:
        final = run.final_weights()
        ranks.first(lambda: _publish(run, final, task, out))
    yield finished


def _tidied(out: Path) -> bool:
    """Removes what was half-written when an earlier try was killed; whether the tokenizer is missing."""
    for leftover in half_written(out):
        leftover.unlink()
    return not (out / TOKENIZER).exists()


def _keep(tokenizer: Tokenizer, path: Path) -> None:
    with naming(path):
        tokenizer.save(path)


def _publish(run: Run, final: dict[str, torch.Tensor], task: Task, out: Path) -> None:
    """The finished model, its scores, its card and its curves."""
    save_weights(final, out / WEIGHTS)
    model, step = run.trainer.parallel.model_with(final), run.trainer.step
    scores = run.validator.measure(model, run.trainer.autocast()) if run.validator else {}
    add_final(out, step, scores)
    write_named(out / CARD, task.card(model, step, scores))
    draw_curves(out)

"""clearhead train: a model from a recipe, or from files of your own."""

import logging
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.console import print_result, print_status, rank
from clearhead.cli.interrupt import INTERRUPTED
from clearhead.cli.options import (
    CaptionsList,
    ImagesList,
    Json,
    LabelsList,
    PairsList,
    QuestionsList,
    Texts,
    argument,
    option,
    pairs_location,
)
from clearhead.cli.progress import FileProgress, Progress, format_duration
from clearhead.errors import SettingsError
from clearhead.files import check_folder
from clearhead.wording import plural

if TYPE_CHECKING:
    from clearhead.tasks.events import Compared, Event, Finished, Note, Validation
    from clearhead.tasks.recipe import Recipe
    from clearhead.tasks.task import Task
    from clearhead.training import Report, TimeBudget

SHOWN_STEPS = 50
"""Progress shows the mean over the last steps, because single batches differ in length and so in loss."""
FEW_SECONDS = 10
"""Below it, the start and the reading of the data take longer than the estimated steps."""
BUSY = " …"
"""Ends a note that announces what the run does next."""


def train(
    recipe: Annotated[
        Path | None, argument("Recipe, by name or file; clearhead recipes lists them.", "RECIPE")
    ] = None,
    out: Annotated[Path | None, option("Folder for the model; default: runs/RECIPE.", "DIR")] = None,
    pairs: PairsList = None,
    text: Texts = None,
    labels: LabelsList = None,
    masked: Annotated[
        bool, option("Mask the text of --text, to pre-train an encoder.", name="--masked")
    ] = False,
    questions: QuestionsList = None,
    images: ImagesList = None,
    captions: CaptionsList = None,
    source: Annotated[str | None, option("Source language of the pairs.", "LANG", name="--from")] = None,
    target: Annotated[str | None, option("Target language of the pairs.", "LANG", name="--to")] = None,
    overrides: Annotated[list[str] | None, option("Override a setting.", "NAME=VALUE", name="--set")] = None,
    resume: Annotated[bool, option("Continue the run in --out.", name="--resume")] = False,
    minutes: Annotated[
        float | None,
        option("Minutes until the model is finished; with --resume, minutes more.", "N", name="--minutes"),
    ] = None,
    decay_on_stop: Annotated[
        bool,
        option("After Ctrl-C, decay the learning rate, then write the model.", name="--decay-on-stop"),
    ] = False,
    json: Json = False,
) -> None:
    """Train a model from a recipe or from your own files.

    Without a recipe, sizes tokenizer, model and run to the files (--pairs, --text, --labels …) and prints
    its choices. Ctrl-C saves the run. --resume continues a stopped or killed run; the final weights are
    bit-identical to those of an uninterrupted one (CPU, fp32).

    --minutes sizes the run to a time on this machine: the model to its measured speed, the number of steps to
    the clock, with a learning rate that reaches zero at the end.

    \b
    Examples:
      clearhead train quickstart --out runs/quickstart
      clearhead train --pairs my.en-de.tsv --out runs/mine
      clearhead train --pairs my.en-de.tsv --out runs/mine --minutes 10
      clearhead train --text my.txt --out runs/writer
      clearhead train --masked --text my.txt --out runs/bert
      clearhead train --labels reviews.tsv --out runs/reviews
      clearhead train --questions train-v2.0.json --out runs/answers
      clearhead train --images photos --out runs/photos
      clearhead train --captions photos/captions.tsv --out runs/captions
      clearhead train quickstart --set model.width=256
      clearhead train --resume --out runs/mine
      torchrun --nproc-per-node 2 -m clearhead train quickstart --out runs/two
    """
    logging.basicConfig(level=logging.ERROR if rank() else logging.WARNING, format="%(message)s")
    if (source or target) and not pairs:
        raise SettingsError("--from and --to: need --pairs; a recipe has its own languages")
    if masked and not text:
        raise SettingsError('--masked: needs --text FILE; a recipe has kind = "masked"')
    given = {
        "--pairs": pairs,
        "--masked" if masked else "--text": text,
        "--labels": labels,
        "--questions": questions,
        "--images": images,
        "--captions": captions,
    }
    if resume and (recipe or any(given.values())):
        raise SettingsError(f"--resume: uses the recipe saved in --out; omit recipe, {', '.join(given)}")
    if not resume:
        _check_one_source(recipe, given)
    folder, overrides, progress = _folder(recipe, out), overrides or [], FileProgress()
    budget = _budget(minutes)
    from clearhead.tasks import run

    if resume:
        events = run.resume(folder, overrides, progress, budget, decay_on_stop)
        show_run(events, progress, folder, json)
        return
    if recipe:
        from clearhead.tasks.recipe import read_recipe

        chosen = read_recipe(recipe, overrides)
    else:
        run.check_new_run(folder)  # before sizing, which may read large files
        chosen = sized_recipe(given, (source, target), overrides, budget)
    show_run(run.train(chosen, folder, progress, budget, decay_on_stop), progress, folder, json)


def _budget(minutes: float | None) -> "TimeBudget | None":
    """The time budget, which starts now: before torch is imported."""
    if minutes is None:
        return None
    started = perf_counter()
    from clearhead.training.budget import TimeBudget

    return TimeBudget(minutes, started=started)


def _check_one_source(recipe: Path | None, given: dict[str, list[str] | None]) -> None:
    """Raise SettingsError unless there is exactly one thing to train on: a recipe or files of one kind."""
    named = [option for option, files in given.items() if files] + ["the recipe"] * bool(recipe)
    if not named:
        raise SettingsError(
            "nothing to train on; pass a recipe (clearhead train quickstart), or your own files with one of "
            f"{', '.join(given)} (clearhead train --pairs my.en-de.tsv --out runs/mine)"
        )
    if recipe and recipe.suffix != ".toml" and recipe.is_file() and len(named) == 2:
        files = [*(given[named[0]] or ()), str(recipe)]
        aligned = f", or if they are aligned: --pairs {','.join(files)}" if given["--pairs"] else ""
        again = " ".join(f"{named[0]} {file}" for file in files)
        raise SettingsError(f"{recipe}: is no recipe; for several files pass {again}{aligned}")
    if len(named) > 1:
        raise SettingsError(f"{' and '.join(named)}: train takes only one of them; omit the others")


def _folder(recipe: Path | None, out: Path | None) -> Path:
    """The folder of the run, after a check that it can be one."""
    if recipe and recipe.suffix != ".toml" and (recipe.suffix or recipe.is_file()):
        raise SettingsError(
            f"{recipe}: a recipe ends in .toml; for pairs use --pairs {recipe}, for text --text {recipe}"
        )
    if out is None and recipe is None:
        raise SettingsError("--out: is missing; pass a folder for the model, for example --out runs/mine")
    folder = out or Path("runs") / recipe.stem  # pyright: ignore[reportOptionalMemberAccess]
    check_folder(folder)
    return folder


def sized_recipe(
    files: dict[str, list[str] | None],
    languages: tuple[str | None, str | None],
    overrides: list[str],
    budget: "TimeBudget | None" = None,
) -> "Recipe":
    """A recipe sized to the files of one option; prints what was chosen and how long it will take."""
    from clearhead.training.devices import choose_device

    option, paths = next((option, paths) for option, paths in files.items() if paths)
    if option == "--pairs":
        fitted = _fit_pairs(paths, languages, overrides, budget)
    else:
        fitted = _fit(option, paths, overrides, budget)
    for choice in fitted.choices():
        print_status(choice)
    device = choose_device(fitted.recipe.training.device)
    seconds = fitted.seconds(device)
    print_status(time_line(seconds, device.type, budget))
    if fitted.warning:
        print_status(f"warning: {fitted.warning}")
    return fitted.recipe


def time_line(seconds: float, device: str, budget: "TimeBudget | None") -> str:
    """The time that a run will take."""
    about = f"about {format_duration(seconds)}" if seconds >= FEW_SECONDS else "a few seconds"
    about = f"{about} on this {device}"
    if budget is None:
        return f"time: at most {about}"
    minutes = f"{budget.minutes:,g} {'minute' if budget.minutes == 1 else 'minutes'}"
    if seconds < 0.9 * budget.seconds_left:
        return f"time: {about}; the data needs no more of the {minutes}"
    return f"time: {minutes}; the clock decides the number of steps"


def _fit_pairs(
    paths: list[str],
    languages: tuple[str | None, str | None],
    overrides: list[str],
    budget: "TimeBudget | None",
) -> Any:
    from clearhead.tasks.translation.sizing import fit

    source, target = languages
    if bool(source) != bool(target):
        raise SettingsError("--from and --to: pass both, or neither if the file name has the languages")
    known = (source, target) if source and target else None
    return fit([pairs_location(one) for one in paths], known, overrides, FileProgress(), budget)


def _fit(option: str, paths: list[str], overrides: list[str], budget: "TimeBudget | None") -> Any:
    module, _, function = SIZINGS[option].partition(":")
    sizing = getattr(import_module(f"clearhead.tasks.{module}"), function)
    more = {"budget": budget} if budget and option in SIZED_TO_TIME else {}
    return sizing(paths, overrides, FileProgress(), **more)


SIZINGS = {
    "--text": "language.sizing:fit_text",
    "--masked": "masked.sizing:fit_masked",
    "--labels": "classification.sizing:fit_labels",
    "--questions": "question_answering.sizing:fit_questions",
    "--images": "image_classification.sizing:fit_images",
    "--captions": "captioning.sizing:fit_captions",
}
"""What sizes a recipe to the files of each option; imported only when used, because torch loads slowly."""


SIZED_TO_TIME = ("--text",)
"""Those that also size the model to a time budget; for the others, it decides only the number of steps."""


def show_run(events: "Iterator[Event]", files: FileProgress, folder: Path, json: bool) -> None:
    """Print the events of a run until it ends."""
    # Raised only now, so that the run logs device and precision, and the estimate before it does not.
    devices = logging.getLogger("clearhead.training.devices")
    devices.setLevel(logging.ERROR if rank() else logging.INFO)
    try:
        _show_events(events, files, folder, json)
    except KeyboardInterrupt:
        print_status(f"stopped at once; continue with: {_resume_command(folder)}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        devices.setLevel(logging.NOTSET)


def _show_events(events: "Iterator[Event]", files: FileProgress, folder: Path, json: bool) -> None:
    from clearhead.tasks.events import Compared, Finished, Note, Rescheduled, Saved, Started, Validation
    from clearhead.training import Pace, Report

    pace = Pace()
    reports: deque[Report] = deque(maxlen=SHOWN_STEPS)
    units = ""
    with Progress("training", "step") as progress:
        for event in events:
            match event:
                case Note():
                    _show_note(event, files)
                case Started():
                    progress.start(event.steps, event.done)
                    units = plural(_task(folder).unit)
                    pace = Pace(event.validate_every, event.save_every)
                case Rescheduled():
                    progress.total = event.steps
                case Report():
                    reports.append(event)
                    pace.step_done()
                    left = pace.seconds_left(event.step, progress.total or event.step)
                    progress.update(event.step, *_details(reports, units), seconds_left=left)
                case Saved():
                    pace.pause_done(event.step)
                case Validation():
                    _show_validation(event, json, progress)
                case Compared():
                    progress.stop()
                    _show_comparison(event, json)
                case Finished():
                    progress.stop()
                    _finish(event, folder, json)


def _show_note(event: "Note", files: FileProgress) -> None:
    print_status(event.text)
    if event.text.endswith(BUSY):
        files.label = event.text.removesuffix(BUSY)


def _show_validation(event: "Validation", json: bool, progress: Progress) -> None:
    best = ", best so far" if event.best else ""
    scores = f"validation {event.text()}{best}"
    print_status(f"step {event.step:,}: {scores} ({event.seconds:.1f} s)")
    if json:
        record = event.record()
        del record["seconds"]  # the same run prints the same lines
        with progress.hidden():
            print_result(record)


def _show_comparison(event: "Compared", json: bool) -> None:
    for line in event.lines():
        print_status(line)
    if json:
        print_result(event.record())


def _finish(event: "Finished", folder: Path, json: bool) -> None:
    """Say where the model is and how to use it, or how to resume the run."""
    from clearhead.checkpoint import SETTINGS
    from clearhead.config import read_toml
    from clearhead.tasks.recipe import parse_recipe
    from clearhead.tasks.records import CURVES

    if event.interrupted:
        print_status(f"stopped after step {event.step:,} and saved; continue with: {_resume_command(folder)}")
        raise typer.Exit(INTERRUPTED)
    curves = f", its curves in {folder / CURVES}" if (folder / CURVES).exists() else ""
    print_status(f"{event.reason}; the model is in {folder}{curves}")
    settings = read_toml(folder / SETTINGS)
    task, name = _task(folder), quote(str(folder))
    options = task.Recipe.usage(settings)
    test = "" if parse_recipe(settings).has_test_data else task.test_option
    print_status(f"try it: {task.command} --model {name}{options} {task.argument}")
    print_status(f"evaluate it: clearhead evaluate {name}{options}{test}")
    print_result({"folder": str(folder), "step": event.step} if json else str(folder))


def _task(folder: Path) -> "type[Task]":
    """The task of the run in a folder."""
    from clearhead.checkpoint import SETTINGS
    from clearhead.config import read_toml
    from clearhead.tasks import TASKS
    from clearhead.tasks.zoo import task_of

    return TASKS[task_of(read_toml(folder / SETTINGS))]


def _resume_command(folder: Path) -> str:
    return f"clearhead train --resume --out {quote(str(folder))}"


def _details(reports: "deque[Report]", units: str) -> tuple[str, ...]:
    """Means over the last steps whose numbers have arrived from the device."""
    known = [report for report in reports if report.ready]
    if not known:
        return ()
    loss = sum(report.loss for report in known) / len(known)
    padding = sum(report.padding for report in known) / len(known)
    speed = sum(report.tokens for report in known) / sum(report.seconds for report in known)
    learning_rate = reports[-1].learning_rate
    return f"loss {loss:.3f}", f"{speed:,.0f} {units}/s", f"padding {padding:.1%}", f"lr {learning_rate:.2e}"

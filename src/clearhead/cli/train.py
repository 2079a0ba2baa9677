"""clearhead train: a recipe, or just a file of pairs or text."""

import logging
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.interrupt import INTERRUPTED
from clearhead.cli.options import Json, ManyPairs, Texts, place, put, rank, say
from clearhead.cli.progress import Progress, Reading, duration
from clearhead.errors import SettingsError
from clearhead.files import check_folder

if TYPE_CHECKING:
    from clearhead.tasks.events import Event
    from clearhead.tasks.language.sizing import FittedText
    from clearhead.tasks.recipes import Recipe
    from clearhead.tasks.translation.recipe import TranslationRecipe
    from clearhead.tasks.translation.sizing import Fitted
    from clearhead.training import Report

# Single batches differ in length and so in loss: shown is the mean over the last ones.
STEPS_SHOWN = 50
# How a note ends that says what is done from then on.
GOING_ON = " …"


def train(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe.", metavar="RECIPE.toml")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the model.", metavar="DIR")] = None,
    pairs: ManyPairs = None,
    text: Texts = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Language of the sources.", metavar="LANG")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", help="Language of the targets.", metavar="LANG")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting.", metavar="NAME=VALUE")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    json: Json = False,
) -> None:
    """Train a model by a recipe; or from a file of pairs or of text alone, which sizes everything to it.

    Ctrl-C saves and says how to go on; a killed run goes on with --resume as if nothing had happened.

        clearhead train recipes/translation/quickstart.toml --out runs/quickstart

        clearhead train --pairs my.en-de.tsv --out runs/mine

        clearhead train --text my.txt --out runs/writer

        clearhead train recipes/translation/quickstart.toml --out runs/wide --set model.width=256

        clearhead train --resume --out runs/mine

        torchrun --nproc-per-node 2 -m clearhead train recipes/translation/quickstart.toml --out runs/two
    """
    logging.basicConfig(level=logging.ERROR if rank() else logging.WARNING, format="%(message)s")
    changes = changes or []
    if out is None and recipe is None:
        raise SettingsError("--out: name a folder for the model, for example --out runs/mine")
    folder = out or Path("runs") / recipe.stem  # pyright: ignore[reportOptionalMemberAccess]
    check_folder(folder)
    if (source or target) and not pairs:
        raise SettingsError("--from and --to: go with --pairs; a recipe names its languages itself")
    if resume:
        if pairs or text or recipe:
            raise SettingsError(
                "--resume: goes on with the recipe saved in --out; give no recipe, no --pairs and no --text"
            )
        from clearhead.tasks.run import resume as resume_run

        reading = Reading()
        _show(resume_run(folder, changes, reading), reading, folder, json)
        return
    if sum(map(bool, (pairs, text, recipe))) != 1:
        raise SettingsError(
            "train: give either a recipe or --pairs FILE or --text FILE (see clearhead train --help)"
        )
    if recipe and recipe.suffix != ".toml":
        raise SettingsError(
            f"{recipe}: a recipe ends in .toml; for a file of pairs: --pairs {recipe}; for a text: "
            f"--text {recipe}"
        )
    from clearhead.tasks.run import check_free
    from clearhead.tasks.run import train as train_run

    if recipe is None:
        # Not after a look over all files, which may take long.
        check_free(folder)
    chosen = _chosen(recipe, pairs, text, (source, target), changes)
    reading = Reading()
    _show(train_run(chosen, folder, reading), reading, folder, json)


def _chosen(
    recipe: Path | None,
    pairs: list[str] | None,
    text: list[str] | None,
    languages: tuple[str | None, str | None],
    changes: list[str],
) -> "Recipe":
    """The recipe that was named, or one that suits the files."""
    if recipe:
        return _from_recipe(recipe, changes)
    return _from_pairs(pairs, *languages, changes) if pairs else _from_text(text or [], changes)


def _from_recipe(path: Path, changes: list[str]) -> "Recipe":
    from clearhead.tasks.recipes import read_recipe

    return read_recipe(path, changes)


def _from_pairs(
    pairs: list[str], source: str | None, target: str | None, changes: list[str]
) -> "TranslationRecipe":
    from clearhead.tasks.translation.sizing import fit

    if bool(source) != bool(target):
        raise SettingsError("--from and --to: give both, or neither where the file's name tells them")
    languages = (source, target) if source and target else None
    fitted = fit([place(one) for one in pairs], languages, changes, Reading())
    _say_fitted(fitted)
    return fitted.recipe


def _from_text(text: list[str], changes: list[str]) -> "Recipe":
    from clearhead.tasks.language.sizing import fit_text

    fitted = fit_text(text, changes, Reading())
    _say_fitted(fitted)
    return fitted.recipe


def _say_fitted(fitted: "Fitted | FittedText") -> None:
    from clearhead.tasks.translation.sizing import estimate_seconds
    from clearhead.training.devices import choose_device

    for choice in fitted.choices():
        say(choice)
    device = choose_device(fitted.recipe.training.device)
    say(f"time: about {duration(estimate_seconds(fitted, device))} on this {device.type}, at the most")


def _show(events: "Iterator[Event]", reading: Reading, folder: Path, json: bool) -> None:
    # Only now, so that device and precision are said once: by the run itself, not by the estimate before it.
    devices = logging.getLogger("clearhead.training.devices")
    devices.setLevel(logging.ERROR if rank() else logging.INFO)
    try:
        _show_all(events, reading, folder, json)
    except KeyboardInterrupt:
        say(f"stopped at once; go on: clearhead train --resume --out {quote(str(folder))}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        devices.setLevel(logging.NOTSET)


def _show_all(events: "Iterator[Event]", reading: Reading, folder: Path, json: bool) -> None:
    from clearhead.tasks.events import Begun, Finished, Note, Validation
    from clearhead.training import Report

    reports: deque[Report] = deque(maxlen=STEPS_SHOWN)
    with Progress("training", "steps") as progress:
        for event in events:
            match event:
                case Note(text):
                    say(text)
                    if text.endswith(GOING_ON):
                        reading.what = text.removesuffix(GOING_ON)
                case Begun():
                    progress.begin(event.steps, event.done)
                case Report():
                    reports.append(event)
                    progress.at(event.step, *_report(reports))
                case Validation():
                    say(_validation(event))
                    if json:
                        with progress.aside():
                            put(
                                {
                                    name: value
                                    for name, value in event.measurement().items()
                                    if name != "seconds"
                                }
                            )
                case Finished():
                    progress.end()
                    _finish(event, folder, json)


def _finish(event, folder: Path, json: bool) -> None:
    named = quote(str(folder))
    if event.interrupted:
        say(f"stopped after step {event.step:,} and saved; go on: clearhead train --resume --out {named}")
        raise typer.Exit(INTERRUPTED)
    say(f"{event.reason}; the model is in {folder}, its curves in {folder / 'curves.png'}")
    verb, to = _use(folder)
    say(f'try it: clearhead {verb} --model {named}{to} "..."; measure it: clearhead evaluate {named}{to}')
    if json:
        put({"folder": str(folder), "step": event.step})
    else:
        put(str(folder))


def _use(folder: Path) -> tuple[str, str]:
    """The command for a model, and the option that one of several languages asks for."""
    from clearhead.checkpoint import SETTINGS
    from clearhead.config import read_toml
    from clearhead.tasks.translation.directions import saved_directions, tags

    settings = read_toml(folder / SETTINGS)
    if settings.get("kind") == "language":
        return "generate", ""
    directions = saved_directions(settings)
    return "translate", f" --to {directions[0].target}" if tags(directions) else ""


def _report(reports: "deque[Report]") -> tuple[str, ...]:
    """Means over the last steps of which a device has told."""
    known = [report for report in reports if report.ready]
    if not known:
        return ()
    loss = sum(report.loss for report in known) / len(known)
    padding = sum(report.padding for report in known) / len(known)
    speed = sum(report.tokens for report in known) / sum(report.seconds for report in known)
    learning_rate = reports[-1].learning_rate
    return f"loss {loss:.3f}", f"{speed:,.0f} tokens/s", f"padding {padding:.1%}", f"lr {learning_rate:.2e}"


def _validation(event) -> str:
    bleu = f", BLEU {event.bleu:.1f}" if event.bleu is not None else ""
    if event.by_direction:
        bleu += f" ({', '.join(f'{name} {value:.1f}' for name, value in event.by_direction.items())})"
    if "bits_per_byte" in event.scores:
        bleu += f", {event.scores['bits_per_byte']:.3f} bits per byte"
    best = ", the best so far" if event.best else ""
    return f"step {event.step:,}: validation loss {event.loss:.3f}{bleu}{best} ({event.seconds:.1f} s)"

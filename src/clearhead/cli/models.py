"""clearhead models: which trained models are here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Json, put, say
from clearhead.errors import ModelError

if TYPE_CHECKING:
    from clearhead.tasks.shelf import Shelved


def models(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Where to look; else in the package, here and in runs.")
    ] = None,
    json: Json = False,
) -> None:
    """List models, the built-in one first: languages, size of the weights, BLEU or bits per byte, licence.

    Both are those of a run's end on what it kept for validation; of the built-in one, on its test sentences.

        clearhead models

        clearhead models ~/translators --json
    """
    from clearhead.tasks.shelf import TRAIN, box, find_models

    for folder in folders or []:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder; without one, the built-in model, here and runs")
    found = find_models(folders or [Path(), Path("runs")])
    built_in = None if folders else box()
    for model in [built_in, *found] if built_in else found:
        inside = model is built_in
        where = "built in" if inside else model.folder
        about = (where, model.languages, f"{model.megabytes} MB", _score(model), model.licence or "")
        put({**model.record(), "built_in": inside} if json else "  ".join(about).rstrip())
    if not found:
        say(f"no trained models here; make one: {TRAIN}")


def _score(model: "Shelved") -> str:
    if model.bits_per_byte is not None:
        return f"{model.bits_per_byte} bits per byte"
    if model.tested:
        return f"BLEU {', '.join(map(str, model.tested.values()))}"
    return "no BLEU" if model.bleu is None else f"BLEU {model.bleu}"

"""clearhead models: which trained models are here."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import Json, put, say
from clearhead.errors import ModelError


def models(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Where to look; else in the package, here and in runs.")
    ] = None,
    json: Json = False,
) -> None:
    """List models, the built-in one first: languages, size, BLEU on their validation sentences, licence.

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
        bleu = "no BLEU" if model.bleu is None else f"BLEU {model.bleu}"
        about = (where, model.languages, f"{model.megabytes} MB", bleu, model.licence or "")
        put({**model.record(), "built_in": inside} if json else "  ".join(about).rstrip())
    if not found:
        say(f"no trained models here; make one: {TRAIN}")

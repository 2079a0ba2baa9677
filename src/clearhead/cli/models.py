"""clearhead models: which trained models are here."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import Json, put, say


def models(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Where to look; else here and in runs.")
    ] = None,
    json: Json = False,
) -> None:
    """List trained models: folder, languages, size, BLEU on their validation sentences.

    clearhead models

    clearhead models ~/translators --json
    """
    from clearhead.tasks.shelf import find_models

    found = find_models(folders or [Path(), Path("runs")])
    for model in found:
        record = model.record()
        bleu = "no BLEU" if model.bleu is None else f"BLEU {model.bleu}"
        put(record if json else f"{model.folder}  {model.languages}  {model.megabytes} MB  {bleu}")
    if not found:
        say("no trained models here; make one: clearhead train recipes/quickstart.toml --out runs/quickstart")

"""clearhead models: the built-in models and those on disk."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json
from clearhead.errors import ModelError

if TYPE_CHECKING:
    from clearhead.tasks.zoo import ModelInfo

HEADER = ("MODEL", "TASK", "SIZE", "QUALITY", "LICENCE")


def models(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders to search; default: the built-in models, this folder and runs.", metavar="FOLDER"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List models with languages, size, quality and licence.

    The quality of a translator is its BLEU at the end of training on the validation set; for built-in models,
    on the test set. The quality of a language model is its bits per byte on the validation text.

    \b
    Examples:
      clearhead models
      clearhead models ~/translators --json
    """
    from clearhead.tasks.zoo import TRAIN, built_in, find_models

    for folder in folders or []:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder; pass a folder of models, or none to search runs")
    found = find_models(folders or [Path(), Path("runs")])
    listed = [*((model, True) for model in (() if folders else built_in())), *((one, False) for one in found)]
    if json:
        for model, inside in listed:
            print_result({**asdict(model), "built_in": inside})
    elif listed:
        rows = [HEADER, *(_row(model, inside) for model, inside in listed)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print_result("  ".join(map(str.ljust, row, widths)).rstrip())
    if not found:
        print_status(f"no trained models here; train one: {TRAIN}")


def _row(model: "ModelInfo", inside: bool) -> tuple[str, ...]:
    return (
        f"{Path(model.folder).name} (built-in)" if inside else model.folder,
        ", ".join(model.variants) or model.task,
        f"{model.megabytes} MB",
        model.quality() or "unknown",
        model.licence or "",
    )

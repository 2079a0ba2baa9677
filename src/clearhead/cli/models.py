"""clearhead models: which trained models are here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import Json, put, say
from clearhead.errors import ModelError

if TYPE_CHECKING:
    from clearhead.tasks.zoo import ModelInfo


def models(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Where to look; else in the package, here and in runs.")
    ] = None,
    json: Json = False,
) -> None:
    """List models, the built-in ones first: languages, size of the weights, how good it is, licence.

    BLEU is that of a run's end on its validation sentences; of a built-in model, on its test sentences. Of a
    language model, the bits that it needs for each byte of its validation text.

        clearhead models

        clearhead models ~/translators --json
    """
    from clearhead.tasks.zoo import TRAIN, built_in, find_models

    for folder in folders or []:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder; without one, the built-in model, here and runs")
    found = find_models(folders or [Path(), Path("runs")])
    inside_the_package = [] if folders else built_in()
    for model in [*inside_the_package, *found]:
        inside = model in inside_the_package
        where = "built in" if inside else model.folder
        about = (where, model.languages, f"{model.megabytes} MB", _quality(model), model.licence or "")
        put({**model.record(), "built_in": inside} if json else "  ".join(about).rstrip())
    if not found:
        say(f"no trained models here; make one: {TRAIN}")


def _quality(model: "ModelInfo") -> str:
    if model.bits_per_byte is not None:
        return f"{model.bits_per_byte} bits per byte"
    from clearhead.tasks.zoo import TEXT

    if model.languages == TEXT:
        return "not measured"
    if model.tested:
        return f"BLEU {', '.join(map(str, model.tested.values()))}"
    return "no BLEU" if model.bleu is None else f"BLEU {model.bleu}"

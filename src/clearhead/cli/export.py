"""clearhead export: a model in another form."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import MODEL, Json, put, say
from clearhead.errors import SettingsError

FORMS = ("int8", "huggingface")


def export(
    model: Annotated[str, typer.Argument(help=MODEL, metavar="M")],
    to: Annotated[str, typer.Option(help=f"One of {', '.join(FORMS)}.", metavar="FORM")],
    out: Annotated[Path, typer.Option(help="The new folder.", metavar="DIR")],
    json: Json = False,
) -> None:
    """Write a trained model in another form.

    int8: a folder of a quarter of the size that every command takes like any other. Each row of a
    matrix is rounded to 255 values; translations hardly change. The test pairs stay with the first one:

        clearhead export runs/mine --to int8 --out runs/mine-int8

        clearhead evaluate runs/mine --against runs/mine-int8

    huggingface: a folder that the transformers library loads, of a language model that it has a class for
    (GPT-2, Llama, Mistral, Qwen3):

        clearhead export runs/mine --to huggingface --out theirs
    """
    if to not in FORMS:
        raise SettingsError(f"--to {to}: is not one of {', '.join(FORMS)}")
    from clearhead.tasks.zoo import find

    folder, _ = find(model)
    if to == "huggingface":
        from clearhead.interop.huggingface import export_model

        family = export_model(folder, out)
        put({"folder": str(out), "model_type": family} if json else str(out))
        return
    from clearhead.tasks.export import export_int8

    made = export_int8(folder, out)
    if json:
        put({"folder": str(out), "bytes": made.after, "bytes_before": made.before})
        return
    put(str(out))
    say(f"{made.after / 1e6:.2f} MB, where {model} needs {made.before / 1e6:.2f} MB")

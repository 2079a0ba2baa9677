"""clearhead data: public data sets by name."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import Json, put, say

app = typer.Typer(help="Public data sets by name: list them, get them.", no_args_is_help=True)


@app.command("list")
def list_data(json: Json = False) -> None:
    """List the data sets: name, languages, licence, where they come from.

    clearhead data list
    """
    from clearhead.data.datasets import list_datasets

    for data in list_datasets():
        languages = ", ".join(data.languages)
        if json:
            put(
                {
                    "name": data.name,
                    "languages": list(data.languages),
                    "description": data.description,
                    "licence": data.licence,
                    "where": data.where,
                }
            )
        else:
            put(f"{data.name:<15} {languages:<15} {data.description}\n{'':<31} {data.licence}; {data.where}")


@app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="A name from the list.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write to; else data/NAME.")] = None,
) -> None:
    """Write the plain files of a data set into a folder; each is checked by its SHA-256.

    Where there is no network, a folder named in CLEARHEAD_DATA is asked first.

        clearhead data get multi30k --out data/multi30k
    """
    from clearhead.data.download import get_dataset

    folder = out or Path("data") / name
    for path in get_dataset(name, folder):
        put(str(path))
    say(f"{name}: complete in {folder}")

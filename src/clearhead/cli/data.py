"""clearhead data: public data sets by name."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.completion import dataset_names
from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, argument, option

app = typer.Typer(help="List and download public data sets.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_data(json: Json = False) -> None:
    """List data sets with their languages, licences and sources.

    \b
    Examples:
      clearhead data list
      clearhead data list --json
    """
    from clearhead.data.datasets import list_datasets

    for data in list_datasets():
        if json:
            fields = ("name", "languages", "description", "licence", "where")
            print_result({field: getattr(data, field) for field in fields})
        else:
            print_result(f"{data.name:<15} {', '.join(data.languages):<14} {data.description}")
            print_result(f"{'':<30} {data.licence}; {data.where}")


@app.command("get")
def get_data(
    name: Annotated[str, argument("Name of a data set from the list.", "NAME", autocompletion=dataset_names)],
    out: Annotated[Path | None, option("Folder to write to; default: data/NAME.", "DIR")] = None,
) -> None:
    """Download a data set and verify the SHA-256 of every file.

    Looks into the folder named by CLEARHEAD_DATA first, so it works offline too.

    \b
    Examples:
      clearhead data get multi30k
      clearhead data get multi30k --out corpora/multi30k
    """
    from clearhead.data.datasets import list_datasets
    from clearhead.data.download import get_dataset

    folder = out or Path("data") / name
    for path in get_dataset(name, folder):
        print_result(str(path))
    licence = next(data.licence for data in list_datasets() if data.name == name)
    print_status(f"{name}: complete in {folder}; licence: {licence}")

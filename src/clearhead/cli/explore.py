"""clearhead explore: the explorer page in the browser."""

from typing import Annotated

import typer

from clearhead.cli.options import MODEL, Device, chosen_device, put, say, say_default
from clearhead.errors import SettingsError


def explore(
    model: Annotated[
        str | None, typer.Argument(help=f"{MODEL} Without: en-de of the package.", metavar="DIR-or-M")
    ] = None,
    port: Annotated[int, typer.Option(help="Where the page is; 0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Whether to open the page in the browser.")] = True,
    device: Device = "auto",
) -> None:
    """Look inside a model: a page on this machine alone, until Ctrl-C.

    clearhead explore

    clearhead explore runs/mine --port 5001 --no-browser
    """
    from clearhead.tasks.load import load, load_built_in
    from clearhead.tasks.zoo import DEFAULT

    try:
        from clearhead.explorer.server import serve
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"explore: {error.name} is not installed; pip install 'clearhead[serve]'"
        ) from None
    chosen = chosen_device(device)
    if model is None:
        say_default(DEFAULT)
    name, loaded = model or DEFAULT, load(model, chosen) if model else load_built_in(DEFAULT, chosen)

    def ready(address: str) -> None:
        put(address)
        say(f"The explorer shows {name} at {address}; Ctrl-C ends it.")

    serve([(name, loaded)], chosen, port, ready, browser)

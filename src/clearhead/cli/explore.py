"""clearhead explore: the explorer page in the browser."""

from typing import Annotated

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import (
    MODEL_HELP,
    TRANSLATOR,
    Device,
    argument,
    check_explains,
    device_named,
    option,
    print_default,
)


def explore(
    model: Annotated[str | None, argument(f"{MODEL_HELP} Default: {TRANSLATOR}.", "MODEL")] = None,
    port: Annotated[
        int | None,
        option("Port of the page; 0 picks any. Default: 8765, or the next free one.", "PORT", name="--port"),
    ] = None,
    browser: Annotated[bool, option("Open the page in the browser.")] = True,
    device: Device = "auto",
) -> None:
    """Explore a model in the browser.

    The page is served on this machine only, until Ctrl-C.

    \b
    Examples:
      clearhead explore
      clearhead explore runs/mine --port 5001 --no-browser
    """
    from clearhead.explorer.server import serve
    from clearhead.tasks.load import load, load_built_in

    torch_device = device_named(device)
    if model is None:
        print_default(TRANSLATOR)
    name = model or TRANSLATOR
    loaded = load(name, torch_device) if model is not None else load_built_in(name, torch_device)
    check_explains(name, loaded)

    def ready(address: str) -> None:
        print_result(address)
        print_status(f"exploring {name} at {address}; press Ctrl-C to stop")

    serve([(name, loaded)], torch_device, port, ready, browser)

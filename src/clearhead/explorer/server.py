"""The explorer's server at work: on loopback alone, with the page opened once it answers."""

import gc
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import uvicorn

from clearhead.errors import ModelError, SettingsError
from clearhead.explorer.app import make_app
from clearhead.explorer.architecture import Model
from clearhead.explorer.library import Library
from clearhead.explorer.limits import MOST_BYTES

HOST = "127.0.0.1"
HIGHEST_PORT = 65_535
START_SECONDS = 30
"""Within which a server in the background answers."""
Models = Sequence[tuple[str, Model]]


class Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, models: Models, device: torch.device | str, ready: Callable[[], None]):
        app = make_app(Library(models, device))
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=MOST_BYTES,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def serve(
    models: Models, device: torch.device | str, port: int, ready: Callable[[str], None], browser: bool
) -> None:
    """Answers until it is interrupted; `ready` is told the page's address."""
    with bound(port) as place:
        address = _address(place)

        def answers() -> None:
            ready(address)
            if browser:
                # Some browsers stay in the foreground: the server must not wait for them.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server = Server(models, device, answers)
        synchronize()
        server.run(sockets=[place])


def synchronize() -> None:
    """Takes what is in memory for good: else Python looks through all of torch for garbage now and then.

    That holds up all answers for more than a tenth of a second.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def in_background(models: Models, device: torch.device | str = "cpu") -> Iterator[str]:
    """The server in a thread until the context ends; gives its address."""
    with bound(0) as place:
        answers = threading.Event()
        server = Server(models, device, answers.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        _await(answers, thread)
        try:
            yield _address(place)
        finally:
            server.should_exit = True
            thread.join()


def _await(answers: threading.Event, thread: threading.Thread) -> None:
    """Until a server answers; one that ends before, or never does, is an error."""
    started = time.monotonic()
    while not answers.wait(0.1):
        if not thread.is_alive() or time.monotonic() - started > START_SECONDS:
            raise ModelError("the explorer's server does not answer; its log tells why")


def bound(port: int) -> socket.socket:
    """A socket on loopback at a port, or at any that is free if it is 0."""
    if not 0 <= port <= HIGHEST_PORT:
        raise SettingsError(f"--port {port}: is not from 0 to {HIGHEST_PORT}")
    # Named as TCP, so that asyncio sends small answers at once: without, each waits for an acknowledgement.
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((HOST, port))
    except OSError as error:
        place.close()
        raise SettingsError(f"--port {port}: {error.strerror}; choose another, or 0 for any") from None
    return place


def _address(place: socket.socket) -> str:
    return f"http://{HOST}:{place.getsockname()[1]}/"

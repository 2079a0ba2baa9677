"""The running server: on loopback only, with the page opened in the browser once it is ready."""

import gc
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch
import uvicorn

from clearhead.errors import ModelError, SettingsError
from clearhead.explorer.app import make_app
from clearhead.explorer.explorable import Explorable
from clearhead.explorer.library import Library
from clearhead.explorer.limits import MAX_BYTES

HOST = "127.0.0.1"
PORT = 8765
"""The port of the page unless another is given; if it is taken, the next free one."""
NEXT_PORTS = 100
MAX_PORT = 65_535
START_SECONDS = 30
"""Time limit for a background server to start."""
Models = Sequence[tuple[str, Explorable]]


class Server(uvicorn.Server):
    """A server that calls `ready` once it accepts requests."""

    def __init__(self, models: Models, device: torch.device | str, ready: Callable[[], None]):
        super().__init__(
            uvicorn.Config(
                make_app(Library(models, device)),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=MAX_BYTES,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def serve(
    models: Models, device: torch.device | str, port: int | None, ready: Callable[[str], None], browser: bool
) -> None:
    """Serves until interrupted, at `PORT` or the next free one by default; `ready` receives the address."""
    with bind_next(PORT) if port is None else bind(port) as listener:
        address = _address(listener)

        def opened() -> None:
            ready(address)
            if browser:
                # Some browsers stay in the foreground; the server must not wait for them.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server = Server(models, device, opened)
        freeze_memory()
        server.run(sockets=[listener])


def freeze_memory() -> None:
    """Exempts everything loaded so far from garbage collection.

    Otherwise Python scans all of torch now and then, which delays responses by more than 100 ms.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def in_background(models: Models, device: torch.device | str = "cpu") -> Iterator[str]:
    """A server in a thread until the context ends; yields its address."""
    with bind(0) as listener:
        ready = threading.Event()
        server = Server(models, device, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        _wait_until_ready(ready, thread)
        try:
            yield _address(listener)
        finally:
            server.should_exit = True
            thread.join()


def _wait_until_ready(ready: threading.Event, thread: threading.Thread) -> None:
    started = time.monotonic()
    while not ready.wait(0.1):
        if not thread.is_alive() or time.monotonic() - started > START_SECONDS:
            raise ModelError("the explorer's server did not start; its log shows why")


def bind(port: int) -> socket.socket:
    """A socket on loopback at this port, or at any free one for 0."""
    if not 0 <= port <= MAX_PORT:
        raise SettingsError(f"--port {port}: is not from 0 to {MAX_PORT}")
    # With the protocol named, asyncio sets TCP_NODELAY; without it, small responses are delayed.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise SettingsError(f"--port {port}: {error.strerror}; choose another, or 0 for any") from None
    return listener


def bind_next(port: int) -> socket.socket:
    """A socket on loopback at this port, or at the next free one."""
    for number in range(port, port + NEXT_PORTS):
        with suppress(SettingsError):
            return bind(number)
    return bind(0)


def _address(listener: socket.socket) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}/"

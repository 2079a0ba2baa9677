"""Ctrl-C while libraries are imported, or while the process ends: it ends the process there and then."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The customary exit status after Ctrl-C: a script must not go on with what is not finished.
INTERRUPTED = 130
IMPORTING = "<frozen importlib._bootstrap>"


@contextmanager
def heeding() -> Iterator[None]:
    """Inside, no library can swallow a Ctrl-C by which it is interrupted while it is imported.

    torch is one that does: what is raised while it imports numpy is cleared by its C code, or aborts the
    process. Nothing has begun by then that would have to be ended in order.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, _end_or_raise)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Last, so that it is called before what the libraries have registered.
            atexit.unregister(_end_at_once)
            atexit.register(_end_at_once)


def _end_at_once() -> None:
    """From now on: all is done, and what is raised while Python ends would be shown as a bug."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_or_raise(number: int, frame: FrameType | None) -> None:
    while frame:
        if frame.f_code.co_filename == IMPORTING:
            sys.stderr.write("clearhead: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt

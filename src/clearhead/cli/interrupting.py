"""Ctrl-C while libraries are imported: it ends the process there and then."""

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


def _end_or_raise(number: int, frame: FrameType | None) -> None:
    while frame:
        if frame.f_code.co_filename == IMPORTING:
            sys.stderr.write("clearhead: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt

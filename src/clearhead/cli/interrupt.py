"""Ctrl-C during imports and at exit, where KeyboardInterrupt would get lost or print a traceback."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C, by convention of the shells; scripts stop at it."""
IMPORT_FRAME = "<frozen importlib._bootstrap>"


@contextmanager
def handle_sigint() -> Iterator[None]:
    """Inside, Ctrl-C during an import ends the process at once; elsewhere it raises KeyboardInterrupt.

    Some libraries swallow the exception: when torch imports numpy, its C code clears it or aborts the
    process. No work has begun by then.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, _exit_or_raise)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Registered last, so that it runs before the handlers of libraries.
            atexit.unregister(_restore_default)
            atexit.register(_restore_default)


def _restore_default() -> None:
    """Let Ctrl-C kill the process: all work is done, and an exception at exit would look like a bug."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _exit_or_raise(number: int, frame: FrameType | None) -> None:
    while frame:
        if frame.f_code.co_filename == IMPORT_FRAME:
            sys.stderr.write("clearhead: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt

"""Ctrl-C as a request that a loop handles after its current step."""

import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Inside the context the first Ctrl-C or SIGTERM only sets `requested`; a second Ctrl-C stops at once.

    `terminated` is set by SIGTERM alone, whose sender may not wait long.

    Only the main thread receives signals; in another, `requested` stays False.
    """

    def __init__(self) -> None:
        self.requested = self.terminated = False
        self._before = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        self.terminated = self.terminated or number == signal.SIGTERM

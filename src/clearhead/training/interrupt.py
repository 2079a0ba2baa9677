"""Ctrl-C as a wish that a loop can grant after its current step."""

import signal
from types import FrameType


class Interrupt:
    """Inside the context the first Ctrl-C or SIGTERM only sets `requested`; a second Ctrl-C ends at once.

    Signals are heard by the main thread, so the context belongs there.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before = {}

    def __enter__(self) -> "Interrupt":
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

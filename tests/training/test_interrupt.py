"""The first Ctrl-C is a request, the second stops at once."""

import signal
import threading

import pytest

from clearhead.training import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_sets_the_flag(number):
    with Interrupt() as interrupt:
        assert not interrupt.requested
        signal.raise_signal(number)
        assert interrupt.requested


def test_the_second_ctrl_c_raises_and_the_old_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_the_context_does_nothing():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with Interrupt() as interrupt:
            seen.append((interrupt.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]

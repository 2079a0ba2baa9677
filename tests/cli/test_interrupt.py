"""Ctrl-C is heeded at any moment, also while libraries are imported that swallow what is raised in them."""

import os
import signal
import subprocess
import sys

import pytest

from clearhead.cli.interrupt import heeding

SWALLOWS = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
except BaseException:
    pass
"""
IMPORTS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from clearhead.cli.interrupt import heeding
with heeding():
    import swallows
print("went on")
"""
ENDS = """
import atexit, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from clearhead.cli.interrupt import heeding
with heeding():
    atexit.register(signal.raise_signal, signal.SIGINT)
"""


def test_while_the_process_ends_it_shows_no_traceback():
    paths = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        [sys.executable, "-c", ENDS], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_what_is_imported_cannot_swallow_it(tmp_path):
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    paths = [str(tmp_path), *filter(None, sys.path)]
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "clearhead: interrupted\n")


@pytest.fixture(autouse=True)
def usual():
    """As Python hears Ctrl-C, wherever the tests are started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_elsewhere_it_is_raised_as_ever():
    with pytest.raises(KeyboardInterrupt), heeding():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("chosen", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_somebody_else_has_chosen_stays(chosen):
    signal.signal(signal.SIGINT, chosen)
    with heeding():
        assert signal.getsignal(signal.SIGINT) is chosen

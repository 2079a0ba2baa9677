"""Ctrl-C works at any moment, even while a library that swallows exceptions is imported."""

import os
import signal
import subprocess
import sys

import pytest

from clearhead.cli.interrupt import handle_sigint

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
from clearhead.cli.interrupt import handle_sigint
with handle_sigint():
    import swallows
print("continued")
"""
ENDS = """
import atexit, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from clearhead.cli.interrupt import handle_sigint
with handle_sigint():
    atexit.register(signal.raise_signal, signal.SIGINT)
"""


def test_ctrl_c_at_exit_shows_no_traceback():
    paths = os.pathsep.join(filter(None, sys.path))
    result = subprocess.run(
        [sys.executable, "-c", ENDS], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (-signal.SIGINT, "")


def test_an_imported_module_cannot_swallow_ctrl_c(tmp_path):
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    paths = [str(tmp_path), *filter(None, sys.path)]
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "clearhead: interrupted\n")


@pytest.fixture(autouse=True)
def default_handler():
    """Python's own handler, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_outside_imports_raises_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), handle_sigint():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_custom_handler_is_kept(handler):
    signal.signal(signal.SIGINT, handler)
    with handle_sigint():
        assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_during_a_command_exits_with_130_and_one_line(call, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clearhead.data.datasets.list_datasets", interrupted)
    result = call("data", "list")
    assert (result.code, result.out) == (130, "")
    assert result.err == "clearhead: interrupted; all printed lines are complete\n"

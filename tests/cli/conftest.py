"""The command line in this process: as a user calls it, without waiting for a new interpreter."""

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clearhead.cli import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def call(monkeypatch, capsys) -> Callable[..., Ended]:
    """Runs a command to its end; anything but an exit is a bug and is raised."""

    def run(*arguments: object, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def refused(call) -> Callable[..., str]:
    """Runs a command that must end with 2 and one line for the user, and gives that line."""

    def run(*arguments: object, stdin: bytes = b"") -> str:
        ended = call(*arguments, stdin=stdin)
        assert ended.code == 2, ended.err
        said = [line for line in ended.err.splitlines() if line.startswith("clearhead: ")]
        assert len(said) == 1, ended.err
        assert ended.err.endswith(said[0] + "\n")
        assert "Traceback" not in ended.err
        return said[0].removeprefix("clearhead: ")

    return run


@pytest.fixture
def copied(number_model, tmp_path) -> Path:
    """A copy of the trained model that may be damaged."""
    return Path(shutil.copytree(number_model, tmp_path / "copied"))

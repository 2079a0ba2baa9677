"""The command line in this process, without the start of a new interpreter."""

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clearhead.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def call(monkeypatch, capsys) -> Callable[..., Result]:
    """Runs a command; any exception but SystemExit is a bug and is raised."""

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exit_:
            main()
        return Result(int(exit_.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def error_of(call) -> Callable[..., str]:
    """Runs a command that must exit with code 2 and one line of error; returns that line."""

    def run(*arguments: object, stdin: bytes = b"") -> str:
        result = call(*arguments, stdin=stdin)
        assert result.code == 2, result.err
        errors = [line for line in result.err.splitlines() if line.startswith("clearhead: ")]
        assert len(errors) == 1, result.err
        assert result.err.endswith(errors[0] + "\n")
        assert "Traceback" not in result.err
        return errors[0].removeprefix("clearhead: ")

    return run


@pytest.fixture
def copied(number_model, tmp_path) -> Path:
    """A copy of the trained model, for tests that damage it."""
    return Path(shutil.copytree(number_model, tmp_path / "copied"))

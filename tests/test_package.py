"""The package as a whole: its public names, what importing it costs, and the floors of the house."""

import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import ClearheadError

ROOT = Path(__file__).parents[1]
SLOW = ("torch", "numpy", "pyarrow", "tokenizers", "sacrebleu", "pydantic", "matplotlib", "fastapi")


def imported_after(code: str) -> set[str]:
    """The slow libraries that are loaded once a fresh interpreter has run some code."""
    code += f"\nimport sys\nsys.stderr.write(' '.join(name for name in {SLOW} if name in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_the_public_names_are_sorted_and_there():
    assert clearhead.__all__ == sorted(clearhead.__all__)
    for name in clearhead.__all__:
        assert getattr(clearhead, name).__name__ == name
    assert set(dir(clearhead)) == {*clearhead.__all__, "__version__"}
    assert issubclass(clearhead.ClearheadError, Exception)
    assert clearhead.ClearheadError is ClearheadError


def test_an_unknown_name_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match="module 'clearhead' has no attribute 'nothing'"):
        clearhead.nothing  # noqa: B018


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert clearhead.__version__ == version("clearhead")


def test_importing_the_package_imports_nothing_slow():
    assert imported_after("import clearhead") == set()


def test_help_imports_nothing_slow():
    help_of_all = """
import contextlib, io, sys
from clearhead.cli import main
commands = "translate, generate, explain, explore, train, evaluate, export, import, models, data, data list"
for command in ("", *commands.split(", ")):
    sys.argv = ["clearhead", *command.split(), "--help"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
"""
    # typer itself brings pydantic in some of its versions.
    assert imported_after(help_of_all) <= {"pydantic"}


def test_translating_imports_nothing_that_only_training_and_measuring_need():
    assert imported_after("import clearhead; clearhead.load") == {"torch", "numpy", "tokenizers", "pydantic"}


def test_text_is_handled_without_torch():
    assert "torch" not in imported_after("import clearhead.text.tokenizer, clearhead.text.languages")


def test_a_floor_imports_only_the_floors_below_it():
    program = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_every_room_is_on_a_floor():
    import tomllib

    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    floors = {room.strip() for floor in contract["layers"] for room in floor.split("|")}
    rooms = {
        f"clearhead.{path.stem}"
        for path in (ROOT / "src" / "clearhead").iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("__")
    }
    assert rooms == floors

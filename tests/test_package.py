"""The package as a whole: its public names, the cost of importing it, and its layers."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import ClearheadError

ROOT = Path(__file__).parents[1]
SLOW = ("torch", "numpy", "pyarrow", "tokenizers", "sacrebleu", "pydantic", "matplotlib", "fastapi")


def imported_after(code: str) -> set[str]:
    """The slow libraries that a new interpreter has loaded after running some code."""
    code += f"\nimport sys\nsys.stderr.write(' '.join(name for name in {SLOW} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def test_public_names_are_sorted_and_importable():
    assert clearhead.__all__ == sorted(clearhead.__all__, key=lambda name: (not name.isupper(), name))
    for name in clearhead.__all__:
        assert getattr(getattr(clearhead, name), "__name__", name) == name
    assert set(dir(clearhead)) == {*clearhead.__all__, "__version__"}
    assert issubclass(clearhead.ClearheadError, Exception)
    assert clearhead.ClearheadError is ClearheadError


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'clearhead' has no attribute 'nothing'"):
        clearhead.nothing  # noqa: B018


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert clearhead.__version__ == version("clearhead")


def test_importing_the_package_imports_nothing_slow():
    assert imported_after("import clearhead") == set()


def test_help_imports_nothing_slow():
    all_help_pages = """
import contextlib, io, sys
from clearhead.cli import main
commands = "translate, generate, explain, explore, train, evaluate, export, import, models, data, data list"
for command in ("", *commands.split(", ")):
    sys.argv = ["clearhead", *command.split(), "--help"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
"""
    # Some versions of typer import pydantic.
    assert imported_after(all_help_pages) <= {"pydantic"}


def test_loading_a_model_imports_nothing_for_training_or_evaluation():
    assert imported_after("import clearhead; clearhead.load") == {"torch", "numpy", "tokenizers", "pydantic"}


def test_help_answers_within_half_a_second():
    """The goal is 0.3 s; the rest is for a busy machine."""
    command = [sys.executable, "-m", "clearhead", "--help"]
    durations = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        durations.append(time.perf_counter() - started)
    assert min(durations) < 0.5


def test_text_processing_does_not_import_torch():
    assert "torch" not in imported_after("import clearhead.text.tokenizer, clearhead.text.languages")


def test_every_layer_imports_only_layers_below_it():
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_every_package_belongs_to_a_layer():
    import tomllib

    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layered = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    packages = {
        f"clearhead.{path.stem}"
        for path in (ROOT / "src" / "clearhead").iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("__")
    }
    assert packages == layered

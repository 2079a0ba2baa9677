"""The shell completes commands, models, recipes, data sets and languages, quickly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.cli.completion import model_names
from clearhead.tasks import zoo

COMPLETE = """
import sys
from clearhead.cli import main
try:
    main()
finally:
    assert "torch" not in sys.modules, "completion must not wait for torch"
"""


def completions(*words: str, folder: Path | None = None) -> list[str]:
    """What bash offers for the last of these words."""
    environment = {
        **os.environ,
        "_CLEARHEAD_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("clearhead", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tra"], ["translate", "train"]),
        (["train", "quick"], ["quickstart"]),
        (["train", "ngrams/ptb-s"], ["ngrams/ptb-selective", "ngrams/ptb-skip"]),
        (["train", "--pairs", "tat"], ["tatoeba-en-de", "tatoeba-en-fr"]),
        (["data", "get", "multi"], ["multi30k"]),
        (["translate", "--to", "de"], ["de"]),
        (["explain", "shake"], ["shakespeare"]),
        (["help", "data", "g"], ["get"]),
        (["evaluate", "my.model"], []),  # then the shell completes files
    ],
)
def test_the_shell_completes(words, expected):
    assert completions(*words) == expected


def test_models_are_the_built_in_ones_and_those_of_this_folder_and_runs(tmp_path, monkeypatch):
    for folder in ("mine", "runs/first", "runs/nothing"):
        (tmp_path / folder).mkdir(parents=True)
        if folder != "runs/nothing":
            (tmp_path / folder / "config.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert set(model_names()) == {*zoo.built_in_names(), "mine", "runs/first"}
    assert completions("translate", "--model", "runs/", folder=tmp_path) == ["runs/first"]


def test_the_completion_script_is_shown(call, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    assert "_CLEARHEAD_COMPLETE=complete_" in call("--show-completion").out

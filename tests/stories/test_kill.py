"""A killed or interrupted and then resumed run ends with the same files as an uninterrupted one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.cli import main
from clearhead.tasks.run import resume

PROGRAM = Path(sys.executable).with_name("clearhead")
SCRIPT = Path(__file__).with_name("run_to_be_killed.py")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Everything that a state has to keep.
MORE = """
ema_decay = 0.9
accumulate = 2
average = { count = 3, of = "last" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, number_recipe) -> Path:
    """Holds a recipe, an uninterrupted run of it, and one that was killed many times."""
    folder = tmp_path_factory.mktemp("killed")
    recipe = number_recipe(folder, steps=100, more=MORE)
    recipe.write_text(recipe.read_text().replace("dropout = 0.0", "dropout = 0.1"))
    recipe.write_text(
        recipe.read_text().replace("_every = 50", "_every = 20").replace("_every = 25", "_every = 8")
    )
    command = [sys.executable, SCRIPT, folder, recipe, "17"]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.splitlines()[-1]) >= 14
    return folder


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [PROGRAM, "train", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | ONE_THREAD)


def wait_for_a_state(out: Path, process: subprocess.Popen[str]) -> None:
    while not list(out.glob("training/state-*.safetensors")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)


def metrics(out: Path) -> list[dict]:
    """All metrics except times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in lines]


def assert_same(first: Path, second: Path) -> None:
    for name in (
        "model.safetensors",
        "tokenizer.json",
        "config.toml",
        "test.tsv",
        "validation.tsv",
        "README.md",
    ):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert metrics(first) == metrics(second)
    left = {path.name for path in second.rglob("*") if path.is_file() and "tensorboard" not in path.parts}
    assert left == {
        path.name for path in first.rglob("*") if path.is_file() and "tensorboard" not in path.parts
    }


def test_a_run_killed_at_any_moment_and_resumed_equals_an_uninterrupted_one(folder):
    assert_same(folder / "straight", folder / "killed")
    assert [path for path in (folder / "killed cache").iterdir() if path.name.startswith(".")] == []


def test_the_program_survives_a_kill_and_ctrl_c(folder, capsys, monkeypatch):
    recipe, out = folder / "recipe.toml", folder / "interrupted"
    process = start(recipe, "--out", out)
    wait_for_a_state(out, process)
    # While it runs, a second run into the same folder is refused.
    for arguments in (["train", str(recipe)], ["train", "--resume"]):
        monkeypatch.setattr(sys, "argv", ["clearhead", *arguments, "--out", str(out)])
        with pytest.raises(SystemExit) as refused:
            main()
        error = capsys.readouterr().err
        assert refused.value.code == 2
        assert error.count("\n") == 1
        assert f"process {process.pid} is training here" in error
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    process = start("--resume", "--out", out)
    while "step 40" not in (line := process.stderr.readline()):  # pyright: ignore[reportOptionalMemberAccess]
        assert line, "ended before step 40"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in error
    assert f"saved; continue with: clearhead train --resume --out {out}\n" in error
    for _ in resume(out):
        pass
    assert_same(folder / "straight", out)

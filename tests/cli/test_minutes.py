"""clearhead train --minutes and --decay-on-stop: bad values, messages, and real signals."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from clearhead.checkpoint import WEIGHTS
from clearhead.cli import progress
from clearhead.cli.train import time_line
from clearhead.config import read_toml
from clearhead.tasks.records import read_metrics

PAIRS = "".join(f"sentence number {number}\tSatz Nummer {number}\n" for number in range(60))


@pytest.mark.parametrize("minutes", ["0", "0.1", "-3", "nan", "inf"])
def test_a_budget_that_is_no_time_to_train_for_is_refused(error_of, tmp_path, minutes, number_recipe):
    error = error_of("train", number_recipe(tmp_path), "--minutes", minutes, "--out", tmp_path / "run")
    assert error == f"--minutes {minutes}: is not a time to train for; pass 0.5 or more"
    assert not (tmp_path / "run").exists()


def test_a_budget_that_is_no_number_is_refused(call, tmp_path):
    result = call("train", "--pairs", tmp_path / "a.tsv", "--minutes", "ten", "--out", tmp_path / "run")
    assert result.code == 2
    assert result.err == "clearhead: --minutes: 'ten' is not a number (see clearhead train --help)\n"


def test_a_million_minutes_end_when_the_data_is_learned(call, tmp_path):
    (tmp_path / "a.en-de.tsv").write_text(PAIRS)
    small = ["--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "training.steps=30"]
    result = call(
        *("train", "--pairs", tmp_path / "a.en-de.tsv", "--minutes", "1e6", "--out", tmp_path / "run"),
        *(*small, "--set", "validation.sentences=0"),
    )
    assert result.code == 0, result.err
    assert "\ntime: a few seconds on this cpu; the data needs no more of the 1e+06 minutes\n" in result.err
    assert f"all steps are done; the model is in {tmp_path}/run" in result.err
    assert read_toml(tmp_path / "run" / "config.toml")["training"]["steps"] == 30


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        (0.3, "time: at most a few seconds on this cpu"),
        (9.9, "time: at most a few seconds on this cpu"),
        (11.0, "time: at most about 11 s on this cpu"),
    ],
)
def test_the_time_of_a_short_run_is_not_zero_seconds(seconds, line):
    assert time_line(seconds, "cpu", None) == line


def test_a_recipe_may_have_a_budget_which_its_steps_limit(call, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path, steps=25)
    result = call("train", recipe, "--minutes", "5", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    training = read_toml(tmp_path / "run" / "config.toml")["training"]
    assert training["steps"] == 25
    assert training["schedule"]["lines"][-1][1:] == [25, 0.0]


def test_a_model_that_is_counted_says_that_it_needs_no_budget(call, tmp_path):
    (tmp_path / "a.txt").write_text("one two three. two three four.\n" * 50)
    (tmp_path / "a.toml").write_text(
        f'kind = "ngrams"\n[data]\ntrain = ["{tmp_path}/a.txt"]\n[model]\nkind = "ngram"\norder = 2\n'
    )
    result = call("train", tmp_path / "a.toml", "--minutes", "1", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "--minutes: a model of kind 'ngram' is fitted in one pass, whatever its time" in result.err


def test_the_time_left_excludes_the_first_steps_and_includes_validations(monkeypatch, capsys):
    monkeypatch.setattr(progress, "monotonic", lambda: 100.0)
    with progress.Progress("training", "step") as shown:
        shown.start(1000)
        shown.update(1000, seconds_left=61)
    assert "1 min 01 s left" in capsys.readouterr().err


def test_ctrl_c_in_a_real_process_decays_and_leaves_a_model(tmp_path, number_recipe):
    recipe, out = number_recipe(tmp_path, steps=100_000), tmp_path / "run"
    command = [sys.executable, "-m", "clearhead", "train", recipe, "--out", out, "--decay-on-stop"]
    paths = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [*map(str, command), "--set", "training.report_every=5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )
    while not (out / "metrics.jsonl").exists() or not read_metrics(out):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages
    assert printed == f"{out}\n"
    stopped = re.search(
        r"stopped after a decay of (\d+) steps; --resume continues from before it, step (\d+)", messages
    )
    assert stopped, messages
    decay, step = map(int, stopped.groups())
    assert (out / WEIGHTS).exists()
    assert [path.name for path in out.glob("training/state-*")] == [f"state-{step:08}.safetensors"]
    last = [line for line in read_metrics(out) if line["kind"] == "train"][-1]
    assert (last["step"], last["learning_rate"]) == (step + decay, 0)

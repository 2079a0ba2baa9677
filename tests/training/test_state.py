"""Saved states are read back exactly, and damaged ones are skipped."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from clearhead.errors import ModelError, TrainingError
from clearhead.training import AverageConfig, StateFolder, TrainingConfig
from clearhead.training.randomness import random_state, set_random_state
from clearhead.training.tensors import read_tree, write_tree


def state_of(step: int, **more) -> dict:
    torch.manual_seed(step)
    return {"step": step, "weights": {"a.weight": torch.randn(40, 30)}, **more}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "model" / "training"


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != "lock"}


def test_a_tree_is_read_back_as_written(tmp_path):
    whole = torch.randn(6, 4)
    tree = {
        "whole": whole,
        "inner": {"view": whole[1:3], "transposed": whole.T, "again": whole, "none": {}, "number": 0.1},
        "scalar": torch.tensor(3, dtype=torch.int32),
        "narrow": torch.randn(5).bfloat16(),
        "empty": torch.zeros(0),
        "list": [1, None, "ä", [2.5e-300]],
    }
    write_tree(tmp_path / "tree", tree)
    back = read_tree(tmp_path / "tree")
    assert back.keys() == tree.keys()
    for name, value in tree["inner"].items():
        assert torch.equal(back["inner"][name], value) if isinstance(value, torch.Tensor) else True
    assert (back["inner"]["none"], back["inner"]["number"]) == ({}, 0.1)
    assert back["list"] == tree["list"]
    for name in ("whole", "scalar", "narrow", "empty"):
        assert torch.equal(back[name], tree[name])
        assert back[name].dtype == tree[name].dtype


def test_the_newest_state_is_read_with_everything_saved(folder):
    with StateFolder(folder) as states:
        assert states.latest() is None
        for step in (10, 20):
            states.save(state_of(step, position={"number": 1, "consumed": step}, scores=[0.5, None]))
        found = states.latest()
    assert found is not None
    assert found["step"] == 20
    assert found["position"] == {"number": 1, "consumed": 20}
    assert found["scores"] == [0.5, None]
    assert torch.equal(found["weights"]["a.weight"], state_of(20)["weights"]["a.weight"])


def test_the_last_states_and_the_best_weights_are_kept(folder):
    scores = {1: 3.0, 2: 1.0, 3: 2.0, 4: 5.0, 5: 4.0, 6: None}
    with StateFolder(folder, keep_last=2, keep_best=2, keep_weights=3) as states:
        for step, score in scores.items():
            states.save(state_of(step), score)
        assert states.steps() == [5, 6]
        assert [int(path.stem[8:]) for path in states.weights()] == [2, 3, 4, 5, 6]
        assert [int(path.stem[8:]) for path in states.best_weights(2)] == [2, 3]
        states.save(state_of(7), 0.5)
        assert [int(path.stem[8:]) for path in states.best_weights(2)] == [7, 2]
        assert [int(path.stem[8:]) for path in states.weights()] == [2, 5, 6, 7]


def test_higher_scores_can_be_better(folder):
    with StateFolder(folder, keep_last=1, keep_best=1, better="higher") as states:
        for step, score in enumerate([20.0, 30.0, 25.0]):
            states.save(state_of(step), score)
        assert [path.stem for path in states.weights()] == ["weights-00000001", "weights-00000002"]


@pytest.mark.parametrize("which", ["state", "weights"])
@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "missing"])
def test_a_damaged_state_is_reported_and_the_previous_one_is_read(folder, caplog, which, harm):
    with StateFolder(folder) as states:
        for step in (1, 2):
            states.save(state_of(step, optimizer={"moments": torch.randn(50)}))
    victim = folder / f"{which}-00000002.safetensors"
    content = bytearray(victim.read_bytes())
    if harm == "cut":
        victim.write_bytes(content[:-7])
    elif harm == "flipped":
        content[-20] ^= 1
        victim.write_bytes(content)
    elif harm == "emptied":
        victim.write_bytes(b"")
    else:
        victim.unlink()
    with StateFolder(folder, keep_last=1) as states:
        found = states.latest()
        assert found is not None
        assert found["step"] == 1
        if not (which == "state" and harm == "missing"):
            assert f"{which}-00000002.safetensors" in caplog.text
        # The damaged one has the higher number, and must not displace later ones.
        states.save(state_of(1, retried=True))
        again = states.latest()
    assert again is not None
    assert again["retried"]


def test_weights_from_another_save_do_not_match_a_state(folder, caplog):
    with StateFolder(folder) as states:
        states.save(state_of(1))
        states.save(state_of(2))
        write_tree(folder / "weights-00000002.safetensors", {"a.weight": torch.zeros(40, 30)})
        found = states.latest()
    assert found is not None
    assert found["step"] == 1
    assert "not the weights that state-00000002.safetensors was saved with" in caplog.text


def test_a_folder_with_only_damaged_states_is_an_error(folder):
    with StateFolder(folder) as states:
        states.save(state_of(1))
        (folder / "state-00000001.safetensors").write_bytes(b"short")
        with pytest.raises(TrainingError, match="all 1 saved states are damaged; start a new run"):
            states.latest()


@pytest.mark.parametrize("name", ["state-00000005.safetensors.tmp", ".tmpIDZEz3"])
def test_leftovers_of_a_killed_save_are_removed_and_reported(folder, caplog, name):
    folder.mkdir(parents=True)
    leftover = folder / name
    leftover.write_bytes(b"half")
    with StateFolder(folder) as states:
        assert states.latest() is None
    assert not leftover.exists()
    assert "left half-written by an earlier run" in caplog.text


@pytest.mark.parametrize("moment", [0, 1, 2, 3])
def test_a_full_disk_loses_only_the_state_that_does_not_fit(folder, monkeypatch, moment):
    with StateFolder(folder) as states:
        states.save(state_of(1))
        calls = []

        def full(handle):
            calls.append(handle)
            if len(calls) > moment:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        before = names(folder)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(
                TrainingError,
                match="cannot save step 2: No space left on device; the state of step 1 is kept; free",
            ):
                states.save(state_of(2))
        assert before <= names(folder)
        assert not list(folder.glob("*.tmp"))
        states.save(state_of(3))
        assert states.steps()[-1] == 3


def test_a_write_error_inside_the_library_is_reported_as_one_of_the_disk(folder):
    previous = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with StateFolder(folder) as states:
        states.save(state_of(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, previous[1]))
        try:
            with pytest.raises(
                TrainingError, match="cannot save step 2: File too large; the state of step 1"
            ):
                states.save(state_of(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, previous)
            signal.signal(signal.SIGXFSZ, handler)
        assert not list(folder.glob("*.tmp"))
        found = states.latest()
    assert found is not None
    assert found["step"] == 1


def test_two_runs_cannot_use_one_folder(folder):
    with StateFolder(folder):
        message = f"process {os.getpid()} is training here; wait for it, stop it, or choose another folder"
        with pytest.raises(TrainingError, match=message), StateFolder(folder):
            pass
    with StateFolder(folder):
        pass


def test_the_lock_of_a_killed_process_is_released(folder):
    code = (
        "import sys, pathlib, time; from clearhead.training.state import StateFolder\n"
        "with StateFolder(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TrainingError, match=f"process {holder.pid} is training"), StateFolder(folder):
            pass
        holder.kill()
    with StateFolder(folder):
        pass


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(TrainingError, match="training: cannot be used for a run: Not a directory"),
        StateFolder(tmp_path / "file" / "training"),
    ):
        pass


def test_the_settings_decide_which_weights_are_kept_and_averaged(folder):
    best = TrainingConfig(average=AverageConfig(count=3, of="best"), monitor="bleu", keep_last=1)
    last = TrainingConfig(average=AverageConfig(count=3, of="last"), keep_last=1)
    scores = [9.0, 8.0, 1.0, 7.0, 2.0]
    for config, expected in ((best, [0, 1, 3]), (last, [2, 3, 4])):
        better = "higher" if config.monitor == "bleu" else "lower"
        with StateFolder.of(folder / config.monitor, config, better=better) as states:
            for step, score in enumerate(scores):
                states.save(state_of(step), score)
            assert config.average is not None
            assert [int(path.stem[8:]) for path in states.to_average(config.average)] == expected
            assert states.steps() == [4]
            assert {int(path.stem[8:]) for path in states.weights()} >= {*expected, 4}


def test_a_passing_state_is_kept_until_the_next_one_and_displaces_none(folder):
    with StateFolder(folder, keep_last=2, keep_weights=2) as states:
        for step, passing in ((10, False), (20, False), (23, True), (26, True)):
            states.save(state_of(step), passing=passing)
        assert states.steps() == [20, 26]
        assert [path.stem for path in states.weights()] == ["weights-00000010", "weights-00000020"]
        found = states.latest()
        assert found is not None
        assert found["step"] == 26
        states.save(state_of(30))
        assert states.steps() == [20, 30]


def test_weights_without_a_state_are_in_no_average(folder):
    with StateFolder(folder, keep_weights=3) as states:
        states.save(state_of(10))
        write_tree(folder / "weights-00000013.safetensors", state_of(13)["weights"])
        states.latest()
        assert [path.stem for path in states.weights()] == ["weights-00000010"]


def test_saving_without_the_lock_is_refused(folder):
    with pytest.raises(TrainingError, match="enter the folder"):
        StateFolder(folder).save(state_of(1))


def test_a_file_of_another_format_is_named(tmp_path):
    with pytest.raises(ModelError, match="nowhere: no such file"):
        read_tree(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelError, match="text: truncated or not a safetensors file"):
        read_tree(tmp_path / "text")


def test_random_generators_continue_from_a_saved_state(tmp_path):
    def sample():
        return [random.random(), random.gauss(), np.random.rand(), np.random.randn(), torch.rand(3).tolist()]

    sample()
    write_tree(tmp_path / "random", random_state())
    expected = sample()
    sample()
    set_random_state(read_tree(tmp_path / "random"))
    assert sample() == expected

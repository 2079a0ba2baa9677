"""A run that cannot start or continue says why in one line and loses no files."""

import errno
import os
import re

import pytest


def short(recipe) -> list[str]:
    """The arguments of a run of two steps."""
    return ["train", str(recipe), "--set", "training.steps=2"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(error_of, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "Permission denied" in error_of(*short(recipe), "--out", tmp_path / "closed")


def test_a_path_that_cannot_be_a_folder_is_named(error_of, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    for out in (recipe, recipe / "below", "/proc/nothing", "/dev/null"):
        error = error_of(*short(recipe), "--out", out)
        assert error.startswith(str(out))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "training").write_text("a file in the way")
    error = error_of(*short(recipe), "--out", tmp_path / "out")
    assert error == f"{tmp_path}/out: is not empty and holds no run; choose a new folder"
    assert (tmp_path / "out" / "training").read_text() == "a file in the way"


def test_a_full_disk_is_named_and_the_run_can_be_resumed(
    error_of, call, tmp_path, number_recipe, monkeypatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe, out = number_recipe(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.training.tensors.save_file", full)
        error = error_of(*short(recipe), "--out", out)
    message = (
        "cannot save step 2: No space left on device; there is no earlier state; free some space and resume"
    )
    assert error == f"{out}/training: {message}"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.checkpoint.save_file", full)
        error = error_of("train", "--resume", "--out", out)
    assert error == (
        f"{out}/model.safetensors: cannot be written (No space left on device); free some space and try again"
    )
    assert call("train", "--resume", "--out", out).code == 0
    assert call("translate", "--model", out, "one").code == 0


def test_training_into_the_folder_of_another_run_is_rejected(error_of, copied, number_recipe, tmp_path):
    before = (copied / "model.safetensors").read_bytes()
    error = error_of(*short(number_recipe(tmp_path)), "--out", copied)
    assert error == f"{copied}: already holds a run; continue it with --resume, or choose another folder"
    assert (copied / "model.safetensors").read_bytes() == before


def test_a_missing_run_cannot_be_resumed(error_of, tmp_path):
    assert "no run to resume, config.toml is missing" in error_of(
        "train", "--resume", "--out", tmp_path / "nowhere"
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_resumed_run_keeps_its_settings(error_of, copied):
    error = error_of("train", "--resume", "--out", copied, "--set", "model.width=64")
    assert error.startswith("--set model.width=64: a resumed run may change only training.average,")


def test_a_run_whose_states_are_all_damaged_cannot_be_resumed(error_of, copied):
    for path in copied.glob("training/*.safetensors"):
        path.write_bytes(b"broken")
    error = error_of("train", "--resume", "--out", copied)
    assert re.search(r"all \d saved states are damaged; start a new run", error)
    assert (copied / "model.safetensors").exists()

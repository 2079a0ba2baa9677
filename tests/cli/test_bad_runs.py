"""A run that cannot start or go on says why in a line, and loses nothing that was there."""

import errno
import os
import re

import pytest


def short(recipe) -> list[str]:
    """The arguments that train a recipe for a moment."""
    return ["train", str(recipe), "--set", "training.steps=2"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(refused, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "Permission denied" in refused(*short(recipe), "--out", tmp_path / "closed")


def test_a_place_where_no_folder_can_be_is_named(refused, tmp_path, number_recipe):
    recipe = number_recipe(tmp_path)
    for out in (recipe, recipe / "below", "/proc/nothing", "/dev/null"):
        said = refused(*short(recipe), "--out", out)
        assert said.startswith(str(out))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "training").write_text("a file in the way")
    assert str(tmp_path / "out" / "training") in refused(*short(recipe), "--out", tmp_path / "out")
    assert (tmp_path / "out" / "training").read_text() == "a file in the way"


def test_a_full_disk_is_named_and_the_run_can_go_on(refused, call, tmp_path, number_recipe, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe, out = number_recipe(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.training.tensors.save_file", full)
        said = refused(*short(recipe), "--out", out)
    message = "cannot save step 2: No space left on device; there is no earlier state; make room and resume"
    assert said == f"{out}/training: {message}"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.checkpoint.save_file", full)
        said = refused("train", "--resume", "--out", out)
    assert (
        said
        == f"{out}/model.safetensors: could not be written (No space left on device); make room and try again"
    )
    assert call("train", "--resume", "--out", out).code == 0
    assert call("translate", "--model", out, "one").code == 0


def test_a_folder_with_a_run_is_not_trained_into(refused, copied, number_recipe, tmp_path):
    before = (copied / "model.safetensors").read_bytes()
    said = refused(*short(number_recipe(tmp_path)), "--out", copied)
    assert said == f"{copied}: holds a run already; go on with it (--resume), or choose another folder"
    assert (copied / "model.safetensors").read_bytes() == before


def test_a_run_that_is_not_there_cannot_be_resumed(refused, tmp_path):
    assert "no run to resume here" in refused("train", "--resume", "--out", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_resumed_run_keeps_its_settings(refused, copied):
    said = refused("train", "--resume", "--out", copied, "--set", "model.width=64")
    assert said.startswith("--set model.width=64: a resumed run keeps its settings but for training.average,")


def test_a_run_whose_states_are_all_broken_says_so(refused, copied):
    for path in copied.glob("training/*.safetensors"):
        path.write_bytes(b"broken")
    said = refused("train", "--resume", "--out", copied)
    assert re.search(r"none of \d saved states is whole; start the run anew", said)
    assert (copied / "model.safetensors").exists()

"""Models are found by their folders, whatever else lies there."""

import shutil

from clearhead.tasks.shelf import Shelved, find_models


def test_models_are_found_in_a_folder_and_right_below_it_once(number_model, tmp_path):
    first = shutil.copytree(number_model, tmp_path / "a")
    shutil.copytree(number_model, tmp_path / "b" / "deeper")
    shutil.copytree(number_model, tmp_path / "c")
    found = find_models([tmp_path, first, tmp_path / "nowhere"])
    assert [model.folder for model in found] == [str(tmp_path / "a"), str(tmp_path / "c")]
    assert [model.folder for model in find_models([first])] == [str(first)]


def test_a_model_is_described_by_its_files(number_model):
    [model] = find_models([number_model])
    assert (model.folder, model.languages, model.megabytes) == (str(number_model), "en-de", 0.1)
    assert model.bleu is not None
    assert 80 < model.bleu <= 100
    assert model.record()["languages"] == "en-de"


def test_unfinished_and_damaged_folders_are_passed_over(number_model, tmp_path):
    for name in ("no settings", "no weights", "broken settings", "odd settings", "no metrics"):
        shutil.copytree(number_model, tmp_path / name)
    (tmp_path / "no settings" / "config.toml").unlink()
    (tmp_path / "no weights" / "model.safetensors").unlink()
    (tmp_path / "broken settings" / "config.toml").write_text("[data")
    (tmp_path / "odd settings" / "config.toml").write_text("data = 3")
    (tmp_path / "no metrics" / "metrics.jsonl").write_text('{"step": 1\n3\n')
    assert find_models([tmp_path]) == [
        Shelved(str(tmp_path / "no metrics"), "en-de", 0.1, None),
        Shelved(str(tmp_path / "odd settings"), "und-und", 0.1, find_models([number_model])[0].bleu),
    ]

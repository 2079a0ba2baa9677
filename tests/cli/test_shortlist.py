"""clearhead shortlist, and the commands that use its file."""

import shutil

import pytest

from clearhead.tasks.translation.shortlist import Shortlist


@pytest.mark.accel
def test_a_shortlist_is_learned_and_used(call, number_model, tmp_path):
    file = tmp_path / "shortlist"
    made = call("shortlist", number_model, "--out", file)
    assert made.code == 0
    assert "pairs into de" in made.err
    assert f"use it: clearhead translate --model {number_model} --shortlist {file}" in made.err
    command = ("translate", "--model", number_model, "three one four")
    assert call(*command, "--shortlist", file).out == call(*command).out
    nothing = Shortlist.load(file)
    nothing.languages["de"].translations.fill_(-1)
    nothing.languages["de"].frequent.fill_(0)
    nothing.save(file)
    assert call(*command, "--shortlist", file).out != call(*command).out
    evaluate = ("evaluate", number_model, "--json")
    assert call(*evaluate, "--shortlist", file).out != call(*evaluate).out


def test_pairs_may_be_given(call, number_model, tmp_path, caplog):
    pairs, file = tmp_path / "pairs.tsv", tmp_path / "shortlist"
    pairs.write_text("one two\t1 2\nthree\t3\n")
    made = call("shortlist", number_model, "--pairs", pairs, "--out", file)
    assert "learning from 2 pairs into de" in made.err
    assert "2 pairs into de are few for a shortlist" in caplog.text
    assert file.is_file()


def test_what_cannot_be_learned_or_used_is_said(error_of, number_model, gpt_model, many_model, tmp_path):
    file = tmp_path / "shortlist"
    assert "'--out'" in error_of("shortlist", number_model)
    assert "is a folder" in error_of("shortlist", number_model, "--out", tmp_path)
    assert "there is no folder" in error_of("shortlist", number_model, "--out", tmp_path / "no" / "file")
    assert "need --pairs FILE" in error_of("shortlist", number_model, "--to", "de", "--out", file)
    assert "use clearhead generate" in error_of("shortlist", gpt_model, "--out", file)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("one\t1\n")
    assert ": name a language;" in error_of("shortlist", many_model, "--pairs", pairs, "--out", file)
    assert "no such file" in error_of("translate", "--model", number_model, "--shortlist", file, "one")
    assert "is not a translator" in error_of("evaluate", gpt_model, "--shortlist", file, "--text", pairs)


def test_without_its_training_data_pairs_are_needed(error_of, number_model, tmp_path):
    folder = shutil.copytree(number_model, tmp_path / "moved")
    settings = (folder / "config.toml").read_text()
    assert ".tsv" in settings
    (folder / "config.toml").write_text(settings.replace(".tsv", ".gone.tsv"))
    message = error_of("shortlist", folder, "--out", tmp_path / "shortlist")
    assert "its training data is gone" in message
    assert message.endswith("pass other pairs (--pairs FILE)")


def test_only_a_shortlist_is_overwritten(call, error_of, number_model, tmp_path):
    folder = shutil.copytree(number_model, tmp_path / "copy")
    weights = (folder / "model.safetensors").read_bytes()
    message = error_of("shortlist", folder, "--out", folder / "model.safetensors")
    assert message.endswith("exists and is not a shortlist; choose another file")
    assert (folder / "model.safetensors").read_bytes() == weights
    for _ in range(2):
        assert call("shortlist", folder, "--out", tmp_path / "shortlist").code == 0


def test_a_shortlist_without_the_target_language_is_refused(call, error_of, many_model, tmp_path):
    pairs, file = tmp_path / "pairs.tsv", tmp_path / "shortlist"
    pairs.write_text("one\t1\n")
    call("shortlist", many_model, "--pairs", pairs, "--from", "en", "--to", "de", "--out", file)
    command = ("translate", "--model", many_model, "--shortlist", file, "--to")
    assert "was made for de, not for fr; make one for it" in error_of(*command, "fr", "three one")
    assert call(*command, "de", "three one").code == 0

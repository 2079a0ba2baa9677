"""What the commands print: results alone on stdout, talk on stderr, JSON where it is asked for."""

import io
import json
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from clearhead.cli import options
from clearhead.errors import DataError


def parsed(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


# translate


def test_each_line_gives_a_line_and_blank_ones_stay_blank(call, number_model):
    ended = call("translate", "--model", number_model, stdin=b"one two\n\n   \nthree four\n")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "1 2\n\n\n3 4\n"


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(call, number_model):
    plain = call("translate", "--model", number_model, stdin=b"one two\nfive six\n")
    foreign = call("translate", "--model", number_model, stdin=b"\xef\xbb\xbfone two\r\nfive six")
    assert plain == foreign


def test_without_a_name_it_is_the_model_in_the_package_whatever_folders_are_here(
    call, number_model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("en-de-fr", "en-de", "shakespeare"):
        shutil.copytree(number_model, name)
    ended = call("translate", "Where is the station?")
    assert ended.out == "Wo ist der Bahnhof?\n"
    assert ended.err == "model: en-de of the package; to use the folder en-de that is here, name it\n"
    assert call("translate", "--to", "fr", "Where is the station?").out == "Où est la gare ?\n"
    ended = call("generate", "ROMEO:", "--tokens", "1")
    assert (ended.code, ended.err.partition(";")[0]) == (0, "model: shakespeare of the package")
    ended = call("translate", "--model", "en-de", "one two")
    assert (ended.out, ended.err) == ("1 2\n", "")


def test_the_explorer_without_a_name_shows_the_model_in_the_package_too(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("en-de").mkdir()
    Path("en-de/config.toml").touch()
    *said, refused = call("explore", "--port", "70000").err.splitlines()
    assert said == ["model: en-de of the package; to use the folder en-de that is here, name it"]
    assert refused == "clearhead: --port 70000: is not from 0 to 65535"
    assert "en-de: no trained model here" in call("explore", "en-de", "--port", "70000").err


def test_no_input_gives_no_output(call, number_model):
    ended = call("translate", "--model", number_model)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.parametrize("at_once", [1, 2, 3, 512])
def test_the_number_of_lines_read_at_once_changes_nothing(at_once, call, number_model):
    lines = b"one two\nthree\n\nfour five six\nseven eight nine zero\n"
    for drawn in ([], ["--temperature", "2", "--seed", "5"]):
        usual = call("translate", "--model", number_model, *drawn, stdin=lines)
        assert call("translate", "--model", number_model, "--at-once", at_once, *drawn, stdin=lines) == usual


def test_json_tells_source_translation_and_score(call, number_model):
    found = parsed(call("translate", "--model", number_model, "--json", "one two", "").out)
    assert [(one["source"], one["translation"]) for one in found] == [("one two", "1 2"), ("", "")]
    assert found[0]["score"] < 0


def test_the_repetition_penalty_has_the_name_that_generate_gives_it_and_its_old_one(call, number_model):
    asked = ("translate", "--model", number_model, "one one one two two")
    plain, *bent = (
        call(*asked, *more).out for more in ([], ["--repetition-penalty", "3"], ["--repetition", "3"])
    )
    assert bent[0] == bent[1] != plain
    helped = call("translate", "--help").out
    assert "--repetition-penalty" in helped
    assert "--repetition " not in helped


def test_the_best_translations_come_with_scores_in_order(call, number_model):
    ended = call("translate", "--model", number_model, "--nbest", "3", "one two")
    scores, texts = zip(*(line.split("\t") for line in ended.lines), strict=True)
    assert len(texts) == 3
    assert texts[0] == "1 2"
    assert list(scores) == sorted(scores, key=float, reverse=True)
    record = parsed(call("translate", "--model", number_model, "--nbest", "3", "--json", "one two").out)[0]
    assert [one["translation"] for one in record["nbest"]] == list(texts)


def test_a_blank_line_stays_blank_among_several_translations_each(call, number_model):
    ended = call("translate", "--model", number_model, "--nbest", "2", "one", "", "two")
    assert [bool(line) for line in ended.lines] == [True, True, False, True, True]


def test_a_prefix_begins_every_translation(call, number_model):
    ended = call("translate", "--model", number_model, "--prefix", "7", "one two", "three four")
    assert all(line.startswith("7") for line in ended.lines)


def test_drawing_again_with_the_same_seed_gives_the_same(call, number_model):
    def draw(seed: int) -> str:
        return call("translate", "--model", number_model, "--temperature", "3", "--seed", seed, "one two").out

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(5)}) > 1


def test_a_translation_cut_off_says_so(call, number_model):
    hot = ["--temperature", "1e9", "--json"]
    found = parsed(call("translate", "--model", number_model, *hot, *["one two"] * 20).out)
    assert any(one.get("complete") is False for one in found)


def test_a_reader_that_has_enough_ends_the_program_quietly(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(typer.Exit) as ended:
            options.put("a line")
        assert ended.value.exit_code == 0


def test_a_full_disk_behind_standard_output_is_named(monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(
            DataError, match=r"standard output: cannot be written \(No space left on device\)"
        ):
            options.put("a line")


def test_output_is_utf8_whatever_the_locale(monkeypatch):
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    options.put({"text": "東京 ü"})
    assert latin.buffer.getvalue().decode() == '{"text": "東京 ü"}\n'  # pyright: ignore[reportAttributeAccessIssue]


# evaluate


def test_a_measurement_says_what_was_measured_and_how(call, number_model):
    ended = call("evaluate", number_model)
    assert ended.code == 0
    assert ended.lines[0] == f"{number_model} on 40 sentences"
    assert any(line.startswith("  BLEU ") and "tok:13a" in line for line in ended.lines)
    assert any(line.startswith("  0-10 ") for line in ended.lines)
    measured = json.loads(call("evaluate", number_model, "--json").out)
    assert measured["sentences"] == 40
    assert {score["name"] for score in measured["scores"]} >= {"BLEU", "chrF2", "TER"}


def test_another_model_or_a_file_of_its_translations_compare_alike(call, number_model, tmp_path):
    written = call("evaluate", number_model, "--beam", "1", "--out", tmp_path / "greedy.txt", "--json")
    assert written.code == 0
    assert len((tmp_path / "greedy.txt").read_text().splitlines()) == 40
    by_file = json.loads(call("evaluate", number_model, "--against", tmp_path / "greedy.txt", "--json").out)
    by_model = json.loads(call("evaluate", number_model, "--against", number_model, "--json").out)
    for measured in (by_file, by_model):
        assert [row["name"] for row in measured["comparisons"]] == ["BLEU", "chrF2"]
    assert all(row["p_value"] == 1.0 for row in by_model["comparisons"])
    assert "95 % intervals" in call("evaluate", number_model, "--against", number_model).out


def test_named_pairs_are_measured_whatever_their_format(call, number_model, tmp_path):
    rows = [line.split("\t") for line in (number_model / "test.tsv").read_text().splitlines()[:9]]
    (tmp_path / "test.en").write_text("".join(f"{source}\n" for source, _ in rows))
    (tmp_path / "test.de").write_text("".join(f"{target}\n" for _, target in rows))
    records = (json.dumps({"source": source, "target": target}) for source, target in rows)
    (tmp_path / "a,b.jsonl").write_text("\n".join(records))
    aligned = call("evaluate", number_model, "--json", "--pairs", f"{tmp_path}/test.en,{tmp_path}/test.de")
    assert json.loads(aligned.out)["sentences"] == 9
    # A comma in the name of a file that is there does not make two of it.
    assert call("evaluate", number_model, "--json", "--pairs", tmp_path / "a,b.jsonl").out == aligned.out


def test_sources_too_long_count_as_empty_translations_and_are_told(call, number_model, tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(f"one two\t1 2\n{'one ' * 16}\t{'1 ' * 16}\nthree four five six\t3 4 5 6\n")
    ended = call("evaluate", number_model, "--pairs", path, "--out", tmp_path / "out.txt", "--json")
    assert ended.code == 0
    measured = json.loads(ended.out)
    assert (measured["sentences"], measured["too_long"]) == (3, 1)
    assert (tmp_path / "out.txt").read_text() == "1 2\n\n3 4 5 6\n"
    said = "1 of 3 sources have more than the 15 tokens that the model takes; each counts as translated by"
    assert f"{number_model}: {said} nothing\n" in ended.err
    rival = call("evaluate", number_model, "--pairs", path, "--against", number_model)
    assert rival.err.count(said) == 2


def test_blank_pairs_are_left_out_here_and_in_what_is_compared_with(call, number_model, tmp_path):
    path, theirs = tmp_path / "test.tsv", tmp_path / "theirs.txt"
    path.write_text("one two three four\t1 2 3 4\n\t5\nsix\t\nfive six seven eight\t5 6 7 8\n")
    theirs.write_text("1 2 3 4\nnot looked at\nnor this\n5 6 7 8\n")
    ours = ("--out", tmp_path / "ours.txt", "--json")
    ended = call("evaluate", number_model, "--pairs", path, "--against", theirs, *ours)
    measured = json.loads(ended.out)
    assert (measured["sentences"], measured["blank"]) == (2, 2)
    assert measured["comparisons"][0]["theirs"]["value"] == pytest.approx(100)
    assert "2 of 4 pairs are blank on a side and left out\n" in ended.err
    # What was written can be compared with in its turn.
    assert len((tmp_path / "ours.txt").read_text().splitlines()) == 4
    assert call("evaluate", number_model, "--pairs", path, "--against", tmp_path / "ours.txt").code == 0


def test_the_length_penalty_of_a_measurement_can_be_chosen(call, refused, number_model, tmp_path):
    for alpha in (0, 9):
        call("evaluate", number_model, "--alpha", alpha, "--out", tmp_path / f"{alpha}")
    assert (tmp_path / "0").read_text() != (tmp_path / "9").read_text()
    assert "alpha: nan should be from 0 to 10" in refused("evaluate", number_model, "--alpha", "nan")


# train


def test_a_run_tells_its_validations_as_json(call, number_recipe, tmp_path):
    changes = [part for name in ("steps", "validate_every") for part in ("--set", f"training.{name}=3")]
    ended = call("train", number_recipe(tmp_path), "--out", tmp_path / "out", "--json", *changes)
    validation, last = parsed(ended.out)
    assert validation["step"] == 3
    assert last == {"folder": str(tmp_path / "out"), "step": 3}
    assert "all steps are done" in ended.err


def test_a_run_says_once_on_what_it_computes(call, tmp_path, numbers, caplog):
    pairs = tmp_path / "numbers.en-de.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(40)))
    changes = ("training.steps=1", "training.device=cpu", "model.width=32", "model.ffn_width=32")
    options = [part for change in changes for part in ("--set", change)]
    ended = call("train", "--pairs", pairs, "--out", tmp_path / "out", *options)
    assert ended.code == 0
    assert "run: 1 steps of about" in ended.err
    assert [message.partition(":")[0] for message in caplog.messages] == ["device", "precision"]


def test_ctrl_c_before_the_first_step_says_how_to_go_on(call, number_recipe, tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "my run"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.tasks.translation.task.learn_tokenizer", interrupted)
        ended = call("train", number_recipe(tmp_path), "--out", out, "--set", "training.steps=1")
    assert ended.code == 130
    assert ended.err.endswith(f"stopped at once; go on: clearhead train --resume --out '{out}'\n")
    assert call("train", "--resume", "--out", out).code == 0


def test_a_recipe_without_out_goes_to_runs(call, number_recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("train", number_recipe(tmp_path), "--set", "training.steps=1").out == "runs/recipe\n"
    assert call("models").lines[-1].startswith("runs/recipe  en-de")


# the model in the package


def test_without_a_model_the_built_in_one_translates(call, boxed):
    assert call("translate", "three one four").out == "3 1 4\n"
    assert call("translate", "--to", "fr", "three one four").out == "c a d\n"
    assert call("translate", "--to", "en", "3 1 4", "c a d").out == "three one four\n" * 2
    assert call("translate", "--model", "fr-en", stdin=b"c a d\n").out == "three one four\n"


def test_a_built_in_model_can_be_measured_by_name(call, boxed, many_model):
    test = many_model / "test.fr-en.tsv"
    [told] = parsed(call("evaluate", "fr-en", "--pairs", test, "--against", many_model, "--json").out)
    assert told["sentences"] == 30
    assert told["comparisons"][0]["name"] == "BLEU"


# models and data


def test_models_are_listed_without_being_loaded(call, copied):
    (copied / "tokenizer.json").write_text("not even looked at")
    found = parsed(call("models", copied.parent, "--json").out)
    assert [model["folder"] for model in found] == [str(copied)]
    assert found[0]["languages"] == "en-de"
    assert found[0]["bleu"] > 80


def test_the_built_in_model_is_listed_first_unless_a_folder_is_named(call, boxed, number_model, monkeypatch):
    monkeypatch.chdir(number_model)
    inside, here = parsed(call("models", "--json").out)
    assert (inside["built_in"], here["built_in"]) == (True, False)
    assert inside["languages"] == "en-de, de-en, en-fr, fr-en"
    assert call("models").lines[0].startswith("built in  en-de, de-en, en-fr, fr-en  0.0 MB  BLEU ")
    assert call("models", number_model).lines[0].startswith(str(number_model))


def test_where_there_are_no_models_the_way_to_one_is_said(call, tmp_path):
    ended = call("models", tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "clearhead train recipes/translation/quickstart.toml" in ended.err


def test_data_sets_are_listed_with_their_licences(call):
    names = [data["name"] for data in parsed(call("data", "list", "--json").out)]
    assert names == ["tatoeba-en-de", "tatoeba-en-fr", "shakespeare", "multi30k", "newstest"]
    assert "CC-BY 2.0" in call("data", "list").out


def test_a_shipped_data_set_is_written_out(call, tmp_path):
    ended = call("data", "get", "tatoeba-en-de", "--out", tmp_path)
    path = Path(ended.lines[0])
    assert path.parent == tmp_path
    with path.open(encoding="utf-8") as file:
        assert sum(1 for _ in file) == 166_384


# help and progress


@pytest.mark.parametrize("command", [[], ["translate"], ["train"], ["evaluate"], ["models"], ["data", "get"]])
def test_every_command_has_help_with_an_example(command, call):
    ended = call(*command, "--help")
    assert ended.code == 0
    assert f"clearhead {' '.join(command)}" in ended.out


def test_the_version_is_that_of_the_package(call):
    assert call("--version").out == f"clearhead {version('clearhead')}\n"


def test_without_a_command_the_help_is_shown(call):
    ended = call()
    assert ended.code == 2
    assert "Usage: clearhead" in ended.out + ended.err


# export


def test_an_exported_model_is_used_like_any_other(call, number_model, tmp_path):
    out = tmp_path / "small"
    ended = call("export", number_model, "--to", "int8", "--out", out)
    assert (ended.code, ended.out) == (0, f"{out}\n")
    assert "MB, where" in ended.err
    assert call("translate", "--model", out, "one two three").out == "1 2 3\n"
    [told] = parsed(call("export", number_model, "--to", "int8", "--out", tmp_path / "other", "--json").out)
    assert told["bytes"] < told["bytes_before"]

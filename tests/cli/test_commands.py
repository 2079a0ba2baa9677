"""What the commands print: results on stdout, messages on stderr, JSON on request."""

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from clearhead.cli import app, console
from clearhead.cli.options import LANGUAGE_MODEL, MULTILINGUAL, TRANSLATOR
from clearhead.errors import DataError
from clearhead.tasks import zoo


def parsed(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


# translate


def test_each_line_gives_one_line_and_blank_lines_stay_blank(call, number_model):
    result = call("translate", "--model", number_model, stdin=b"one two\n\n   \nthree four\n")
    assert (result.code, result.err) == (0, "")
    assert result.out == "1 2\n\n\n3 4\n"


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(call, number_model):
    plain = call("translate", "--model", number_model, stdin=b"one two\nfive six\n")
    windows = call("translate", "--model", number_model, stdin=b"\xef\xbb\xbfone two\r\nfive six")
    assert plain == windows


def test_the_default_is_the_built_in_model_even_if_a_folder_has_its_name(
    call, number_model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("en-de-fr", "en-de", "shakespeare"):
        shutil.copytree(number_model, name)
    result = call("translate", "Where is the station?")
    assert result.out == "Wo ist der Bahnhof?\n"
    assert result.err == "using the built-in model en-de; to use the folder en-de instead, pass its name\n"
    assert call("translate", "--to", "fr", "Where is the station?").out == "Où est la gare ?\n"
    result = call("generate", "ROMEO:", "--tokens", "1")
    assert (result.code, result.err.partition(";")[0]) == (0, "using the built-in model shakespeare")
    result = call("translate", "--model", "en-de", "one two")
    assert (result.out, result.err) == ("1 2\n", "")


def test_the_explorer_uses_the_built_in_model_by_default(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("en-de").mkdir()
    Path("en-de/config.toml").touch()
    status, error = call("explore", "--port", "70000").err.splitlines()
    assert status == "using the built-in model en-de; to use the folder en-de instead, pass its name"
    assert error == "clearhead: --port 70000: is not from 0 to 65535"
    assert "en-de: no trained model here" in call("explore", "en-de", "--port", "70000").err


def test_no_input_gives_no_output(call, number_model):
    result = call("translate", "--model", number_model)
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("batch_size", [1, 2, 3, 512])
def test_the_batch_size_changes_nothing(batch_size, call, number_model):
    lines = b"one two\nthree\n\nfour five six\nseven eight nine zero\n"
    for sampling in ([], ["--temperature", "2", "--seed", "5"]):
        command = ("translate", "--model", number_model, *sampling)
        assert call(*command, "--batch-size", batch_size, stdin=lines) == call(*command, stdin=lines)


def test_json_has_source_translation_and_score(call, number_model):
    found = parsed(call("translate", "--model", number_model, "--json", "one two", "").out)
    assert [(one["source"], one["translation"]) for one in found] == [("one two", "1 2"), ("", "")]
    assert found[0]["score"] < 0


def test_the_repetition_penalty_changes_a_translation(call, number_model):
    command = ("translate", "--model", number_model, "one one one two two")
    assert call(*command).out != call(*command, "--repetition-penalty", "3").out


def test_the_best_translations_come_with_scores_in_order(call, number_model):
    result = call("translate", "--model", number_model, "--nbest", "3", "one two")
    scores, texts = zip(*(line.split("\t") for line in result.lines), strict=True)
    assert len(texts) == 3
    assert texts[0] == "1 2"
    assert list(scores) == sorted(scores, key=float, reverse=True)
    record = parsed(call("translate", "--model", number_model, "--nbest", "3", "--json", "one two").out)[0]
    assert [one["translation"] for one in record["nbest"]] == list(texts)


def test_a_blank_text_has_one_blank_line_even_with_nbest(call, number_model):
    result = call("translate", "--model", number_model, "--nbest", "2", "one", "", "two")
    assert [bool(line) for line in result.lines] == [True, True, False, True, True]


def test_a_prefix_begins_every_translation(call, number_model):
    result = call("translate", "--model", number_model, "--prefix", "7", "one two", "three four")
    assert all(line.startswith("7") for line in result.lines)


def test_sampling_with_the_same_seed_gives_the_same_text(call, number_model):
    def sample(seed: int) -> str:
        return call("translate", "--model", number_model, "--temperature", "3", "--seed", seed, "one two").out

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(5)}) > 1


def test_a_truncated_translation_is_marked(call, number_model):
    hot = ["--temperature", "1e9", "--json"]
    found = parsed(call("translate", "--model", number_model, *hot, *["one two"] * 20).out)
    assert any(one.get("complete") is False for one in found)


def test_a_full_disk_behind_stdout_is_named(monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(DataError, match=r"stdout: cannot be written \(No space left on device\)"):
            console.print_result("a line")


def test_output_is_utf8_whatever_the_locale(monkeypatch):
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    console.print_result({"text": "東京 ü"})
    assert latin.buffer.getvalue().decode() == '{"text": "東京 ü"}\n'  # pyright: ignore[reportAttributeAccessIssue]


# closed pipes


def run_into_closed_pipe(*arguments: object, stdin: str = "", close_stderr: bool = False) -> tuple[int, str]:
    """The exit code of a command whose reader has closed the pipe, and what it prints to stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "clearhead", *map(str, arguments)]
    errors = writer if close_stderr else subprocess.PIPE
    result = subprocess.run(command, input=stdin, stdout=writer, stderr=errors, text=True)
    os.close(writer)
    return result.returncode, result.stderr or ""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["translate", "--help"], ["--version"], ["data", "list"], ["models"]]
)
def test_a_closed_pipe_ends_a_command_quietly(arguments):
    assert run_into_closed_pipe(*arguments) == (0, "")


def test_a_closed_pipe_ends_a_translation_quietly(number_model):
    assert run_into_closed_pipe("translate", "--model", number_model, stdin="one two\n" * 3) == (0, "")


def test_a_closed_pipe_of_messages_ends_a_command_quietly(tmp_path):
    code, _ = run_into_closed_pipe("models", tmp_path, close_stderr=True)
    assert code == 0


@pytest.mark.parametrize("redirection", [">&-", "2>&-"])
def test_closed_streams_change_nothing_else(redirection, tmp_path):
    command = f"{sys.executable} -m clearhead models {tmp_path} {redirection}"
    assert subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0


def test_head_gets_its_lines_of_the_help():
    command = f"set -o pipefail; {sys.executable} -m clearhead --help | head -2"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: clearhead")


# evaluate


def test_an_evaluation_has_scores_with_signatures(call, number_model):
    result = call("evaluate", number_model)
    assert result.code == 0
    assert result.lines[0] == f"{number_model} on 40 sentences"
    assert any(line.startswith("  BLEU ") and "tok:13a" in line for line in result.lines)
    assert any(line.startswith("  0-10 ") for line in result.lines)
    measured = json.loads(call("evaluate", number_model, "--json").out)
    assert measured["sentences"] == 40
    assert {score["name"] for score in measured["scores"]} >= {"BLEU", "chrF2", "TER"}


def test_comparing_with_a_model_or_a_file_of_translations(call, number_model, tmp_path):
    written = call("evaluate", number_model, "--beam", "1", "--out", tmp_path / "greedy.txt", "--json")
    assert written.code == 0
    assert len((tmp_path / "greedy.txt").read_text().splitlines()) == 40
    by_file = json.loads(call("evaluate", number_model, "--against", tmp_path / "greedy.txt", "--json").out)
    by_model = json.loads(call("evaluate", number_model, "--against", number_model, "--json").out)
    for measured in (by_file, by_model):
        assert [row["name"] for row in measured["comparisons"]] == ["BLEU", "chrF2"]
    assert all(row["p_value"] == 1.0 for row in by_model["comparisons"])
    assert "95 % confidence intervals" in call("evaluate", number_model, "--against", number_model).out


def test_pairs_of_every_format_are_evaluated(call, number_model, tmp_path):
    rows = [line.split("\t") for line in (number_model / "test.tsv").read_text().splitlines()[:9]]
    (tmp_path / "test.en").write_text("".join(f"{source}\n" for source, _ in rows))
    (tmp_path / "test.de").write_text("".join(f"{target}\n" for _, target in rows))
    records = (json.dumps({"source": source, "target": target}) for source, target in rows)
    (tmp_path / "a,b.jsonl").write_text("\n".join(records))
    aligned = call("evaluate", number_model, "--json", "--pairs", f"{tmp_path}/test.en,{tmp_path}/test.de")
    assert json.loads(aligned.out)["sentences"] == 9
    # An existing file with a comma in its name is one file.
    assert call("evaluate", number_model, "--json", "--pairs", tmp_path / "a,b.jsonl").out == aligned.out


def test_sources_that_are_too_long_count_as_empty_translations(call, number_model, tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(f"one two\t1 2\n{'one ' * 16}\t{'1 ' * 16}\nthree four five six\t3 4 5 6\n")
    result = call("evaluate", number_model, "--pairs", path, "--out", tmp_path / "out.txt", "--json")
    assert result.code == 0
    measured = json.loads(result.out)
    assert (measured["sentences"], measured["too_long"]) == (3, 1)
    assert (tmp_path / "out.txt").read_text() == "1 2\n\n3 4 5 6\n"
    status = "1 of 3 sources exceed the model's limit of 15 tokens and count as empty translations\n"
    assert f"{number_model}: {status}" in result.err
    comparison = call("evaluate", number_model, "--pairs", path, "--against", number_model)
    assert comparison.err.count(status) == 2


def test_blank_pairs_are_skipped_in_both_systems(call, number_model, tmp_path):
    path, theirs = tmp_path / "test.tsv", tmp_path / "theirs.txt"
    path.write_text("one two three four\t1 2 3 4\n\t5\nsix\t\nfive six seven eight\t5 6 7 8\n")
    theirs.write_text("1 2 3 4\nignored\nignored too\n5 6 7 8\n")
    ours = ("--out", tmp_path / "ours.txt", "--json")
    result = call("evaluate", number_model, "--pairs", path, "--against", theirs, *ours)
    measured = json.loads(result.out)
    assert (measured["sentences"], measured["blank"]) == (2, 2)
    assert measured["comparisons"][0]["theirs"]["value"] == pytest.approx(100)
    assert "skipped 2 of 4 pairs with a blank side\n" in result.err
    # The written file can be compared with, too.
    assert len((tmp_path / "ours.txt").read_text().splitlines()) == 4
    assert call("evaluate", number_model, "--pairs", path, "--against", tmp_path / "ours.txt").code == 0


def test_the_length_penalty_of_an_evaluation_can_be_chosen(call, error_of, number_model, tmp_path):
    for penalty in (0, 9):
        call("evaluate", number_model, "--length-penalty", penalty, "--out", tmp_path / f"{penalty}")
    assert (tmp_path / "0").read_text() != (tmp_path / "9").read_text()
    error = error_of("evaluate", number_model, "--length-penalty", "nan")
    assert error.startswith("--length-penalty: nan should be from 0 to 10")


# train


def test_json_has_the_validations_of_a_run(call, number_recipe, tmp_path):
    changes = [part for name in ("steps", "validate_every") for part in ("--set", f"training.{name}=3")]
    result = call("train", number_recipe(tmp_path), "--out", tmp_path / "out", "--json", *changes)
    validation, last = parsed(result.out)
    assert validation["step"] == 3
    assert last == {"folder": str(tmp_path / "out"), "step": 3}
    assert "all steps are done" in result.err


def test_a_run_logs_device_and_precision_once(call, tmp_path, numbers, caplog):
    pairs = tmp_path / "numbers.en-de.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in numbers(40)))
    changes = ("training.steps=1", "training.device=cpu", "model.width=32", "model.ffn_width=32")
    options = [part for change in changes for part in ("--set", change)]
    result = call("train", "--pairs", pairs, "--out", tmp_path / "out", *options)
    assert result.code == 0
    assert "run: 1 step of about" in result.err
    assert [message.partition(":")[0] for message in caplog.messages] == ["device", "precision"]


def test_ctrl_c_before_the_first_step_says_how_to_resume(call, number_recipe, tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "my run"
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.tasks.translation.task.learn_tokenizer", interrupted)
        result = call("train", number_recipe(tmp_path), "--out", out, "--set", "training.steps=1")
    assert result.code == 130
    assert result.err.endswith(f"stopped at once; continue with: clearhead train --resume --out '{out}'\n")
    assert call("train", "--resume", "--out", out).code == 0


def test_the_default_output_folder_is_in_runs(call, number_recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("train", number_recipe(tmp_path), "--set", "training.steps=1").out == "runs/recipe\n"
    assert call("models").lines[-1].split()[:2] == ["runs/recipe", "en-de"]


# built-in models


def test_the_built_in_model_translates_by_default(call, built_in_model):
    assert call("translate", "three one four").out == "3 1 4\n"
    assert call("translate", "--to", "fr", "three one four").out == "c a d\n"
    assert call("translate", "--to", "en", "3 1 4", "c a d").out == "three one four\n" * 2
    assert call("translate", "--model", "fr-en", stdin=b"c a d\n").out == "three one four\n"


def test_a_built_in_model_can_be_evaluated_by_name(call, built_in_model, many_model):
    test = many_model / "test.fr-en.tsv"
    [record] = parsed(call("evaluate", "fr-en", "--pairs", test, "--against", many_model, "--json").out)
    assert record["sentences"] == 30
    assert record["comparisons"][0]["name"] == "BLEU"


# models and data


def test_models_are_listed_without_being_loaded(call, copied):
    (copied / "tokenizer.json").write_text("damaged")
    found = parsed(call("models", copied.parent, "--json").out)
    assert [model["folder"] for model in found] == [str(copied)]
    assert found[0]["variants"] == ["en-de"]
    assert found[0]["scores"]["bleu"] > 80


def test_built_in_models_are_listed_first_unless_a_folder_is_given(
    call, built_in_model, number_model, monkeypatch
):
    monkeypatch.chdir(number_model)
    inside, here = parsed(call("models", "--json").out)
    assert (inside["built_in"], here["built_in"]) == (True, False)
    assert inside["variants"] == ["en-de", "de-en", "en-fr", "fr-en"]
    assert (
        call("models").lines[1].startswith("en-de-fr (built-in)  en-de, de-en, en-fr, fr-en  0.0 MB  BLEU ")
    )
    assert call("models", number_model).lines[1].startswith(str(number_model))


def test_without_models_the_training_command_is_shown(call, tmp_path):
    result = call("models", tmp_path)
    assert (result.code, result.out) == (0, "")
    assert "clearhead train quickstart" in result.err


def test_data_sets_are_listed_with_their_licences(call):
    names = [data["name"] for data in parsed(call("data", "list", "--json").out)]
    assert {"tatoeba-en-de", "phrases-en-fr", "shakespeare", "multi30k", "newstest"} <= set(names)
    assert "CC-BY 2.0" in call("data", "list").out


def test_a_shipped_data_set_is_written_out(call, tmp_path):
    result = call("data", "get", "tatoeba-en-de", "--out", tmp_path)
    path = Path(result.lines[0])
    assert path.parent == tmp_path
    assert "licence: CC-BY 2.0" in result.err
    with path.open(encoding="utf-8") as file:
        assert sum(1 for _ in file) == 166_384


# help


def every_command(group: Any, *name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with its name."""
    yield name, group
    for inner, command in getattr(group, "commands", {}).items():
        yield from every_command(command, *name, inner)


EVERY_COMMAND = dict(every_command(typer.main.get_command(app)))


@pytest.mark.parametrize("name", EVERY_COMMAND, ids=" ".join)
def test_every_help_fits_80_columns_and_nothing_is_cut_off(name, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call(*name, "--help")
    assert result.code == 0
    assert max(map(len, result.lines)) <= 80
    usage, *lines = result.lines
    assert not any(line.rstrip().endswith(("...", "…")) for line in lines)
    assert not any(line.endswith("-") for line in lines), "a model's name is broken in two"
    command = EVERY_COMMAND[name]
    assert usage.startswith(f"Usage: {' '.join(('clearhead', *name))}")
    if hasattr(command, "commands"):
        listed = {line.split()[0] for line in lines if re.match(r"  \w", line)}
        assert command.commands.keys() <= listed
    else:
        assert f"Examples:\n    clearhead {' '.join(name)}" in result.out


@pytest.mark.parametrize("name", EVERY_COMMAND, ids=" ".join)
def test_the_help_command_shows_the_help_of_a_command(name, call):
    assert call("help", *name) == call(*name, "--help")


def test_help_for_a_misspelt_command_suggests_one(error_of):
    assert (
        error_of("help", "tarin") == "No such command 'tarin'. Did you mean 'train'? (see clearhead --help)"
    )


def test_the_default_models_are_those_of_the_package():
    assert {TRANSLATOR, MULTILINGUAL, LANGUAGE_MODEL} <= zoo.built_in_names().keys()


def test_the_version_is_that_of_the_package(call):
    assert call("--version").out == f"clearhead {version('clearhead')}\n"


def test_without_a_command_the_help_is_printed(call):
    result = call()
    assert result.code == 2
    assert "Usage: clearhead" in result.out + result.err


# export


def test_an_exported_model_is_used_like_any_other(call, number_model, tmp_path):
    out = tmp_path / "small"
    result = call("export", number_model, "--to", "int8", "--out", out)
    assert (result.code, result.out) == (0, f"{out}\n")
    assert "MB, down from" in result.err
    assert call("translate", "--model", out, "one two three").out == "1 2 3\n"
    [record] = parsed(call("export", number_model, "--to", "int8", "--out", tmp_path / "other", "--json").out)
    assert record["bytes"] < record["bytes_before"]


def test_no_option_is_named_by_its_metavar_alone():
    """typer 0.27 takes a metavar that is the parameter's name in capitals for the name of the option."""
    for path in sorted(Path(console.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for argument in function.args.args:
                for call in ast.walk(argument.annotation or ast.Pass()):
                    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "option":
                        metavars = [one.value for one in call.args[1:] if isinstance(one, ast.Constant)]
                        named = any(keyword.arg == "name" for keyword in call.keywords)
                        assert named or argument.arg.upper() not in metavars, f"{path.name}: {argument.arg}"

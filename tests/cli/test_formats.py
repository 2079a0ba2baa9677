"""Data as people have it, from the command line; the option that an error names then works."""

import csv
import json
import shlex

import pytest

TINY = ["--set", "training.steps=2", "--set", "model.width=16", "--set", "model.attention.heads=2"]
PAIRS = [(f"A man sees {number} dogs.", f"Ein Mann sieht {number} Hunde.") for number in range(60)]


def written(path, rows, **dialect):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, **dialect).writerows(rows)
    return path


def option_in(error: str, name: str) -> list[str]:
    """The option of this name in an error, as the shell would pass it."""
    return shlex.split(error[error.index(name) :])[:2]


def test_the_option_in_the_error_for_an_unknown_header_trains(call, error_of, tmp_path):
    rows = [("id", "caption_a", "caption_b"), *((str(n), *pair) for n, pair in enumerate(PAIRS))]
    path = written(tmp_path / "captions.csv", rows, delimiter=";")
    command = ["train", "--pairs", path, "--from", "en", "--to", "de", "--out", tmp_path / "out", *TINY]
    error = error_of(*command)
    assert error.startswith(
        f"{path}, line 1: which columns hold source and target is unclear; it has id, capt"
    )
    option = option_in(error, "--set")
    assert option == ["--set", 'data.columns=["caption_a", "caption_b"]']
    result = call(*command, *option)
    assert result.code == 0, result.err
    assert "corpus: 60 pairs read, 60 kept" in result.err


def test_the_option_in_the_error_of_evaluate_works(call, error_of, tmp_path, number_model):
    rows = [("id", "caption_a", "caption_b"), *((str(n), "one two", "eins zwei") for n in range(5))]
    path = written(tmp_path / "test.csv", rows)
    error = error_of("evaluate", number_model, "--pairs", path)
    option = option_in(error, "--columns")
    assert option == ["--columns", "caption_a,caption_b"]
    result = call("evaluate", number_model, "--pairs", path, *option, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["sentences"] == 5


@pytest.mark.parametrize("columns", ["a", "a,b,c", ",b"])
def test_evaluate_needs_two_columns(error_of, number_model, columns):
    error = error_of("evaluate", number_model, "--pairs", "x.tsv", "--columns", columns)
    assert error == f"--columns {columns}: name two, for example --columns source,target"


def test_columns_need_a_file(error_of, number_model):
    assert "needs --pairs FILE" in error_of("evaluate", number_model, "--columns", "a,b")


def test_a_template_on_the_command_line_has_line_ends(call, tmp_path):
    path = tmp_path / "q.jsonl"
    records = [{"prompt": f"What is {n} and {n}?", "answer": f"It is {2 * n}."} for n in range(60)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    template = r"data.template=Q: {prompt}\nA: {answer}"
    result = call("train", "--text", path, "--set", template, "--out", tmp_path / "out", *TINY)
    assert result.code == 0, result.err
    assert "for example: Q: What is 0 and 0?↵A:" in result.err

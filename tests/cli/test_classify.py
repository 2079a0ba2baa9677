"""clearhead train --labels, classify and evaluate, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.errors import TextError

pytest.importorskip("sklearn")


def reviews(count: int, seed: int) -> str:
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        label = int(random.integers(2))
        word = random.choice(["good", "fine"] if label else ["bad", "dull"])
        others = " ".join(random.choice(["film", "plot", "the", "a", "very"], size=6))
        lines.append(f"{'pos' if label else 'neg'}\t{word} {others}\n")
    return "label\ttext\n" + "".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "train.tsv").write_text(reviews(120, 0))
    (folder / "test.tsv").write_text(reviews(30, 1))
    return folder


@pytest.fixture
def trained(files: Path, call) -> Path:
    if not (files / "run").exists():
        result = call("train", "--labels", files / "train.tsv", "--out", files / "run")
        assert result.code == 0, result.err
        assert "rule of thumb: 109 texts / 7 words = 16, below 1,500: a bag of words" in result.err
        assert "model: bag of n-grams up to 2" in result.err
        assert result.out == f"{files / 'run'}\n"
    return files / "run"


def test_texts_get_a_label_and_a_probability(call, trained):
    result = call("classify", "--model", trained, "a good film", "a dull plot")
    assert [line.split("\t")[0] for line in result.lines] == ["pos", "neg"]
    assert all(0.5 < float(line.split("\t")[1]) <= 1 for line in result.lines)


def test_stdin_is_classified_line_by_line(call, trained):
    result = call("classify", "--model", trained, "--json", stdin=b"good\nxyzzy bad\n\n")
    records = [json.loads(line) for line in result.lines]
    assert [record["text"] for record in records] == ["good", "xyzzy bad", ""]
    assert [record["label"] for record in records] == ["pos", "neg", ""]
    assert records[1]["unknown"] == ["xyzzy"]
    assert sum(records[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_a_blank_text_gets_a_blank_line(call, trained):
    result = call("classify", "--model", trained, "--explain", stdin=b"good\n \nbad\n")
    assert [line[:3] for line in result.lines if not line.startswith("  ")] == ["pos", "", "neg"]
    assert call("classify", "--model", trained, "").out == "\n"


def test_explain_names_the_words_that_decided(call, trained):
    result = call("classify", "--model", trained, "--explain", "a dull xyzzy film")
    assert result.lines[0].startswith("neg\t")
    assert result.lines[1].strip().startswith("+")
    assert "dull" in result.lines[1]
    assert "not in the model's vocabulary: xyzzy" in result.err


def test_evaluate_measures_a_file_or_the_held_out_texts(call, trained, files):
    result = call("evaluate", trained, "--labels", files / "test.tsv", "--json")
    assert json.loads(result.out)["accuracy"] == 1
    assert "accuracy 100.00%" in call("evaluate", trained).out


def test_another_kind_of_model_can_be_chosen(call, files, tmp_path):
    options = ["--set", "model.kind=bilstm", "--set", "model.width=8", "--set", "training.steps=2"]
    result = call("train", "--labels", files / "train.tsv", "--out", tmp_path / "r", *options)
    assert result.code == 0, result.err
    assert "model: bilstm, width 8, 1 layer" in result.err
    assert "curves.png" in result.err


def test_mistakes_get_one_line(error_of, trained, files, tmp_path):
    odd = tmp_path / "odd.tsv"
    odd.write_text("label\ttext\nmaybe\tx\n")
    assert "label 'maybe' is not in the training data" in error_of("evaluate", trained, "--labels", odd)
    assert "no such file" in error_of("train", "--labels", tmp_path / "none.tsv", "--out", tmp_path / "r")
    assert "this model continues text" in error_of("classify", "--model", "shakespeare", "x")
    assert "a classifier needs two" in error_of("train", "--labels", odd, "--out", tmp_path / "r")
    assert "--text" in error_of("evaluate", trained, "--text", odd)


@pytest.mark.parametrize("command", ["explain", "explore"])
def test_a_bag_has_no_explanations(trained: Path, error_of, command: str):
    text = ["a text"] if command == "explain" else []
    assert error_of(command, trained, *text).endswith(
        "a model of kind 'bag' has no explanations; use clearhead classify"
    )


def test_a_threshold_applies_to_several_labels_only(call, trained, tmp_path):
    result = call("classify", "--model", trained, "--threshold", "0.3", "good")
    assert result.code == 2
    assert result.err == f"clearhead: --threshold: {trained} gives each text one label; leave it out\n"
    lines = [
        {"labels": [name for name in ("good", "bad") if number >> len(name) & 1], "text": f"{number} a film"}
        for number in range(40)
    ]
    for line in lines:
        line["text"] += " " + " ".join(line["labels"])
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sets = ["training.steps=2", "model.width=16", "model.ffn_width=16", "training.device=cpu"]
    options = [part for one in sets for part in ("--set", one)]
    result = call("train", "--labels", tmp_path / "x.jsonl", "--out", tmp_path / "run", *options)
    assert result.code == 0, result.err
    assert "any number of labels per text: a sequence model" in result.err
    run = tmp_path / "run"
    [both] = call("classify", "--model", run, "--threshold", "0.0001", "a film").lines
    assert {*both.split("\t")[::2]} == {"good", "bad"}
    assert call("classify", "--model", run, "--threshold", "0.9999", "a film").lines == ["(no label)"]
    [record] = call("classify", "--model", run, "--threshold", "0.9999", "--json", "a film").lines
    assert json.loads(record)["labels"] == []
    assert "micro-F1" in call("evaluate", run, "--labels", tmp_path / "x.jsonl").out
    assert (
        call("classify", "--model", run, "--threshold", "2", "x").err
        == "clearhead: --threshold: 2 is not between 0 and 1\n"
    )


def test_validation_files_are_evaluated_if_there_are_no_test_files(call, files, tmp_path):
    validation = ["--set", f"data.validation=['{files / 'test.tsv'}']"]
    trained = call("train", "--labels", files / "train.tsv", "--out", tmp_path / "run", *validation)
    assert f"evaluate it: clearhead evaluate {tmp_path / 'run'}\n" in trained.err
    assert call("evaluate", tmp_path / "run").lines[0] == f"{files / 'test.tsv'}: 30 texts"


def test_without_held_out_texts_the_command_to_evaluate_names_the_option(call, files, tmp_path):
    nothing = ["--set", "data.hold_out.share=0"]
    result = call("train", "--labels", files / "train.tsv", "--out", tmp_path / "run", *nothing)
    assert f"evaluate it: clearhead evaluate {tmp_path / 'run'} --labels FILE\n" in result.err


def test_python_refuses_a_blank_text(trained):
    model = clearhead.load(trained)
    for text in ("", "  ", ["good", " "]):
        with pytest.raises(TextError, match="blank"):
            model.classify(text)

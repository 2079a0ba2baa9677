"""clearhead train --questions, answer and evaluate --data, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

NAMES, ROOMS = ["Ada", "Bob", "Kim", "Max"], ["garden", "office", "cellar"]
SMALL = [
    *("model.width=16", "model.ffn_width=32", "model.layers=1", "training.steps=4", "training.device=cpu"),
    *("tokenizer.kind=word", "training.validate_every=4", "training.save_every=4"),
]
CONTEXT = "Zoe is in the garden.\nKim is in the cellar.\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("questions"), np.random.default_rng(0)
    lines = []
    for _ in range(60):
        name, room = random.choice(NAMES), random.choice(ROOMS)
        record = {
            "context": f"{name} is in the {room}.",
            "question": "Who is there?",
            "answers": [str(name)],
        }
        lines.append(json.dumps(record))
    lines.append(json.dumps({"context": "Empty.", "question": "Who is there?", "answers": ["Eve"]}))
    (folder / "train.jsonl").write_text("\n".join(lines))
    (folder / "context.txt").write_text(CONTEXT)
    (folder / "empty.txt").write_text(" \n")
    return folder


@pytest.fixture
def trained(files: Path, call) -> Path:
    if not (files / "run").exists():
        changes = [argument for change in SMALL for argument in ("--set", change)]
        result = call("train", "--questions", files / "train.jsonl", "--out", files / "run", *changes)
        assert result.code == 0, result.err
        assert "answers are parts of the texts" in result.err
        assert "left out 1 question whose answer is not in its context" in result.err
        assert f"try it: clearhead answer --context FILE --model {files / 'run'}" in result.err
    return files / "run"


def test_an_answer_has_a_score_and_a_position(call, trained, files):
    result = call("answer", "--model", trained, "--context", files / "context.txt", "Who is there?", "Where?")
    assert result.code == 0, result.err
    for line in result.lines:
        text, score, position = line.split("\t")
        first, last = map(int, position.split("-"))
        assert CONTEXT[first:last].split() == text.split()
        assert 0 < float(score) <= 1


def test_questions_come_from_stdin_line_by_line(call, trained, files):
    result = call(
        "answer", "--model", trained, "--context", files / "context.txt", "--json", stdin=b"Who?\n\nWhere?\n"
    )
    records = [json.loads(line) for line in result.lines]
    assert [record["question"] for record in records] == ["Who?", "Where?"]
    assert all(CONTEXT[record["start"] : record["end"]] == record["answer"] for record in records)


def test_the_context_may_come_from_stdin(call, trained, files):
    there = call("answer", "--model", trained, "--context", files / "context.txt", "Who?")
    assert (
        call("answer", "--model", trained, "--context", "-", "Who?", stdin=CONTEXT.encode()).out == there.out
    )


def test_a_threshold_allows_no_answer(call, trained, files):
    options = ("--model", trained, "--context", files / "context.txt", "--threshold=-1000")
    result = call("answer", *options, "Who?")
    assert result.out == "\n"
    assert "no answer" in result.err
    assert json.loads(call("answer", *options, "--json", "Who?").out)["answer"] == ""


def test_a_file_of_ones_own_is_measured(call, trained, files):
    record = json.loads(call("evaluate", trained, "--data", files / "train.jsonl", "--json").out)
    assert record["questions"] == 61
    assert 0 <= record["exact_match"] <= record["f1"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--context", "empty.txt", "Who?"), "context: is empty; pass the text that holds the answer"),
        (("--context", "missing.txt", "Who?"), "missing.txt: no such file"),
        (("--context", "context.txt", " "), "question 1: is blank; pass a question"),
        (("--context", "-"), "--context -: stdin holds the text, so pass the questions as arguments"),
    ],
)
def test_bad_input_gets_one_clear_line(call, trained, files, arguments, message, monkeypatch):
    monkeypatch.chdir(files)
    result = call("answer", "--model", trained, *arguments, stdin=b"")
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_another_option_is_refused_by_name(call, trained):
    result = call("evaluate", trained, "--labels", "x.tsv")
    assert result.code == 2
    assert "answers questions; it takes --data" in result.err

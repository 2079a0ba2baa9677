"""clearhead train --masked, fill, evaluate, generate, explain and explore, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

TRAIN = ("--set", "training.steps=120", "--set", "masking.causal=0.4", "--set", "tokenizer.kind=word")


def sentences(count: int, seed: int) -> str:
    random = np.random.default_rng(seed)
    pairs = [("cat", "milk"), ("horse", "grass"), ("man", "bread")]
    lines = []
    for _ in range(count):
        animal, food = pairs[int(random.integers(3))]
        days = random.choice(["Monday", "Tuesday", "Friday", "Sunday"], size=2)
        lines.append(f"The {animal} likes {food} on {days[0]} and {days[1]}.\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("animals")
    (folder / "train.txt").write_text(sentences(300, 0))
    (folder / "test.txt").write_text(sentences(40, 1))
    return folder


@pytest.fixture
def trained(files: Path, call) -> Path:
    if not (files / "run").exists():
        result = call("train", "--masked", "--text", files / "train.txt", "--out", files / "run", *TRAIN)
        assert result.code == 0, result.err
        assert "a document is a line of plain text" in result.err
        assert "120 steps" in result.err
        assert "try it: clearhead fill --model" in result.err
        assert "step 120: validation loss" in result.err
        assert "accuracy of masked tokens" in result.err
    return files / "run"


def test_masks_are_filled_and_candidates_listed(call, trained):
    result = call("fill", "--model", trained, "--top", "2", "The cat likes [MASK] on Friday and Sunday.")
    assert result.lines[0] == "The cat likes milk on Friday and Sunday."
    assert result.lines[1].split()[0] == "milk"
    assert len(result.lines[1].split()) == 4


def test_stdin_is_filled_line_by_line(call, trained):
    lines = b"The [MASK] likes [MASK] on Friday and Sunday.\n\nThe [MASK] likes grass on Friday and Sunday.\n"
    result = call("fill", "--model", trained, "--json", "--top", "3", stdin=lines)
    records = [json.loads(line) for line in result.lines]
    assert [len(record["masks"]) for record in records] == [2, 0, 1]
    assert records[2]["filled"] == "The horse likes grass on Friday and Sunday."
    assert records[2]["masks"][0][0]["token"] == "horse"
    assert records[1] == {"text": "", "filled": "", "masks": []}
    plain = call("fill", "--model", trained, "--top", "1", stdin=lines).lines
    assert plain[3] == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing hidden", "clearhead: text 1: has no [MASK]; write [MASK] where a word is missing: "),
        ("[MASK] " * 2000, "clearhead: the text has 2002 tokens, but the model takes at most 128; shorten"),
    ],
)
def test_a_text_that_cannot_be_filled_gets_one_line(call, trained, text: str, message: str):
    result = call("fill", "--model", trained, text)
    assert result.code == 2
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1


def test_a_line_that_cannot_be_filled_is_named_and_the_others_are_filled(call, trained):
    lines = "The [MASK] likes milk.\n\nnothing hidden\n" + "[MASK] " * 2000 + "\nThe [MASK] likes grass.\n"
    result = call("fill", "--model", trained, "--json", stdin=lines.encode())
    assert result.code == 2
    assert [json.loads(line)["text"] for line in result.lines] == [
        "The [MASK] likes milk.",
        "",
        "The [MASK] likes grass.",
    ]
    assert [line.partition(";")[0] for line in result.err.splitlines()] == [
        "clearhead: text 3: has no [MASK]",
        "clearhead: text 4: the text has 2002 tokens, but the model takes at most 128",
        "clearhead: 2 texts could not be filled",
    ]


def test_wrong_uses_get_one_line(call, trained, files):
    assert "--top" in call("fill", "--model", trained, "--top", "0", "a [MASK]").err
    other = call("fill", "--model", "shakespeare", "a [MASK]")
    assert other.err == "clearhead: shakespeare: this model continues text; use clearhead generate\n"
    alone = call("train", "--masked", "--out", files / "none")
    assert alone.err == 'clearhead: --masked: needs --text FILE; a recipe has kind = "masked"\n'
    labels = call("evaluate", trained, "--labels", files / "test.txt")
    assert labels.err.endswith("fills masks; it takes --text, --field\n")


def test_a_masked_model_is_evaluated(call, trained, files):
    held_out = json.loads(call("evaluate", trained, "--json").out)
    assert held_out["accuracy"] > held_out["most_frequent"]
    result = call("evaluate", trained, "--text", files / "test.txt")
    assert "masked tokens, 30% of 40 documents" in result.lines[0]
    assert result.lines[1].strip().startswith("accuracy")


def test_a_model_of_both_objectives_generates(call, trained):
    result = call("generate", "--model", trained, "--temperature", "0", "--tokens", "1", "the horse likes")
    assert result.out.split()[-1] == "grass"


def test_a_masked_model_is_explained_as_picture_page_and_numbers(call, trained, tmp_path):
    text = "The cat likes [MASK] on Friday and Sunday."
    for name in ("a.svg", "a.html", "a.json"):
        result = call("explain", trained, text, "--out", tmp_path / name)
        assert result.code == 0, result.err
        assert "-> The cat likes milk on Friday and Sunday." in result.err
    numbers = json.loads((tmp_path / "a.json").read_text())
    assert numbers["output"] == "The cat likes milk on Friday and Sunday."

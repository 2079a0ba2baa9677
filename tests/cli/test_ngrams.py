"""N-grams on the command line: train, evaluate, generate, explain; and what it says about bad input."""

import json
from pathlib import Path

import pytest

TEXT = "the cat sat on the mat\nthe dog sat on the log\nthe cat saw the dog\n" * 30


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'kind = "ngrams"\n[data]\ntrain = ["{tmp_path}/text.txt"]\n[model]\nkind = "ngram"\norder = 3\n'
    )
    return path


@pytest.fixture
def model(call, recipe: Path, tmp_path: Path) -> Path:
    result = call("train", recipe, "--out", tmp_path / "model")
    assert result.code == 0, result.err
    assert "all n-grams are counted; the model is in" in result.err
    assert "curves" not in result.err
    return tmp_path / "model"


def test_a_counted_model_is_evaluated_continued_and_explained(call, model: Path, tmp_path: Path):
    lines = call("evaluate", model).lines
    assert "</s>" in lines[0]
    assert any(line.startswith("  perplexity") for line in lines)
    scores = json.loads(call("evaluate", model, "--text", tmp_path / "text.txt", "--json").out)
    assert scores["tokens"] == len(TEXT.split()) + TEXT.count("\n")
    assert scores["perplexity"] < 10
    assert call("generate", "--model", model, "--temperature", 0, "--tokens", 2, "the cat sat").out == (
        "the cat sat on the\n"
    )
    result = call("explain", model, "the cat", "--tokens", 1, "--out", tmp_path / "x.svg")
    assert result.code == 0, result.err
    assert "attention" not in result.err
    assert "ngrams" in call("models", model.parent, "--json").out


def test_unknown_words_are_said(call, model: Path, tmp_path: Path):
    result = call("generate", "--model", model, "--tokens", 1, "the zebra saw the gnu")
    assert "prompt 1: 2 words are not in the model's vocabulary; it reads <unk> and backs off" in result.err
    (tmp_path / "test.txt").write_text("the zebra sat\n")
    result = call("evaluate", model, "--text", tmp_path / "test.txt")
    assert "1 of 3 tokens are not in the model's vocabulary; it reads <unk> and backs off" in result.err


def test_what_a_model_does_not_take_is_one_line(error_of, model: Path, recipe: Path, tmp_path: Path):
    assert error_of("evaluate", model, "--stride", 5).endswith("continues text; it takes --text, --field")
    assert "no word of 'zebra gnu'" in error_of("generate", "--model", model, "zebra gnu")
    assert "this model continues text; use clearhead generate" in error_of("translate", "--model", model, "x")
    out = tmp_path / "other"
    wrong = error_of("train", recipe, "--out", out, "--set", "model.order=8")
    assert "model.order: 8 should be less than or equal to 6" in wrong
    wrong = error_of("train", recipe, "--out", out, "--set", "training.steps=8")
    assert "training.steps: unknown setting" in wrong

"""Invalid recipes, options and texts give one line each with location, value and fix."""

import os

import pytest
import torch

TEN_ERRORS = """
kind = "poem"
colour = "red"
[data]
source = "english"
target = "de"
[tokenizer]
kind = "bpx"
[model]
widht = 64
attention = { score = "cos" }
[batches]
tokens = "many"
[training]
steps = 0
schedule = { kind = "cosine", learning_rate = -1.0 }
"""


def test_ten_errors_in_a_recipe_are_ten_lines(call, tmp_path):
    recipe = tmp_path / "wrong.toml"
    recipe.write_text(TEN_ERRORS)
    result = call("train", recipe, "--out", tmp_path / "out")
    errors = result.err.splitlines()
    assert result.code == 2
    assert [line.removeprefix(f"clearhead: {recipe}: ").partition(":")[0] for line in errors] == [
        "kind",
        "model.attention.score",
        "model.widht",
        "training.steps",
        "training.schedule.learning_rate",
        "data.source",
        "data.train",
        "tokenizer.kind",
        "batches.tokens",
        "colour",
    ]
    assert "unknown setting (did you mean width?)" in result.err
    assert "language 'english' is unknown; did you mean en (English)?" in result.err
    assert "'cos' is not one of dot, scaled, general, additive, cosine, location" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"[data\n", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8 (byte 0); save it as UTF-8"),
        (b"", "data: is missing"),
    ],
)
def test_an_unreadable_recipe_is_named(content, message, error_of, tmp_path):
    recipe = tmp_path / "recipe.toml"
    if content is not None:
        recipe.write_bytes(content)
    error = error_of("train", recipe, "--out", tmp_path / "out")
    assert error.startswith(f"{recipe}: ")
    assert message in error


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("nonsense", "--set nonsense: write NAME=VALUE, for example model.width=256"),
        ("model.width=wide", "model.width: 'wide' is not an integer"),
        ("model.width=33", "33"),
        ("model.widht=32", "model.widht: unknown setting (did you mean width?)"),
        ("data.source.x=1", "--set data.source.x=1: source is a value, not a group of settings"),
        ("training.monitor=chrf", "training.monitor: 'chrf' is not one of loss, bleu"),
    ],
)
def test_an_invalid_override_is_rejected(override, message, error_of, tmp_path, number_recipe):
    error = error_of("train", number_recipe(tmp_path), "--out", tmp_path / "out", "--set", override)
    assert message in error
    assert not (tmp_path / "out").exists()


NOTHING = (
    "nothing to train on; pass a recipe (clearhead train quickstart), or your own files with one of "
    "--pairs, --text, --labels, --questions, --images, --captions"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], f"{NOTHING} (clearhead train --pairs my.en-de.tsv --out runs/mine)"),
        (["train", "--out", "x"], NOTHING),
        (
            ["train", "--pairs", "p.tsv"],
            "--out: is missing; pass a folder for the model, for example --out runs/mine",
        ),
        (["train", "--resume"], "--out: is missing"),
        (
            ["train", "r.toml", "--pairs", "p.tsv", "--out", "x"],
            "--pairs and the recipe: train takes only one of them; omit the others",
        ),
        (["train", "r.toml", "--resume", "--out", "x"], "--resume: uses the recipe saved in --out"),
        (
            ["train", "--pairs", "p.tsv", "--from", "en", "--out", "x"],
            "--from and --to: pass both, or neither",
        ),
        (["train", "r.toml", "--to", "de", "--out", "x"], "--from and --to: need --pairs"),
        (["train", "--pairs", "p", "--from", "en", "--to", "xx", "--out", "x"], "language 'xx' is unknown"),
        (["trian"], "No such command 'trian'. Did you mean 'train'? (see clearhead --help)"),
        (
            ["translate", "--beam", "wide"],
            "--beam: 'wide' is not an integer (see clearhead translate --help)",
        ),
        (
            ["generate", "--top-p", "most", "x"],
            "--top-p: 'most' is not a number (see clearhead generate --help)",
        ),
        (["evaluate", "m", "--stride", "0"], "--stride: '0' should be greater than or equal to 1"),
        (["evaluate"], "Missing argument 'MODEL'. (see clearhead evaluate --help)"),
        (["data", "get", "wmt99"], "wmt99: no such dataset; choose from tatoeba-en-de, tatoeba-en-fr"),
    ],
)
def test_contradictory_arguments_are_rejected(arguments, message, error_of):
    assert message in error_of(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "0"], "--beam: 0 should be at least 1"),
        (["--nbest", "6"], "--nbest: 6 should be from 1 to the beam, 5"),
        (["--nbest", "0"], "--nbest: 0 should be from 1 to the beam, 5"),
        (["--nbest", "2", "--top-k", "3"], "--nbest: 2 needs beam search; sample with several seeds instead"),
        (["--beam", "4", "--top-k", "3"], "--beam: 4 has no effect on sampling; leave it out"),
        (
            ["--length-penalty", "1", "--top-k", "3"],
            "--length-penalty: 1.0 has no effect on sampling; leave it out",
        ),
        (
            ["--length-penalty", "-1"],
            "--length-penalty: -1.0 should be from 0 to 10 (0 disables it)",
        ),
        (["--length-penalty", "nan"], "--length-penalty: nan should be from 0 to 10"),
        (["--length-penalty", "inf"], "--length-penalty: inf should be from 0 to 10"),
        (
            ["--temperature", "0"],
            "--temperature: 0.0 should be finite and at least 1e-06; use greedy search instead of 0",
        ),
        (["--temperature", "inf"], "--temperature: inf should be finite and at least 1e-06"),
        (["--top-k", "0"], "--top-k: 0 should be at least 1"),
        (["--top-p", "0"], "--top-p: 0.0 should be greater than 0 and at most 1"),
        (["--min-p", "2"], "--min-p: 2.0 should be from 0 to 1"),
        (
            ["--repetition-penalty", "0"],
            "--repetition-penalty: 0.0 should be from 0.01 to 100 (1 changes nothing)",
        ),
        (
            ["--repetition-penalty", "nan"],
            "--repetition-penalty: nan should be from 0.01 to 100 (1 changes nothing)",
        ),
        (["--no-repeat-ngram", "-1"], "--no-repeat-ngram: -1 should be at least 0 (0 allows any)"),
        (
            ["--prefix", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7"],
            "--prefix: the 16 tokens of sentence 1 reach its max_length 15; shorten them",
        ),
        (["--to", "fr"], "--to fr: this model translates en-de only"),
        (["--to", "german"], "--to german: this model translates en-de only (did you mean de?)"),
        (["--device", "tpu"], "--device tpu: is not one of auto, cpu, cuda"),
        (["--seed", str(1 << 70), "--top-k", "3"], "should be from 0 to 4611686018427387904"),
        (["--seed", "3"], "--seed 3: needs --temperature, --top-k, --top-p or --min-p"),
        (["--batch-size", "0"], "--batch-size: '0' should be greater than or equal to 1"),
    ],
)
def test_an_invalid_option_is_rejected(options, message, error_of, number_model):
    assert message in error_of("translate", "--model", number_model, "one two", *options)
    # Whether a prefix fits depends on the text; all other options are checked without one.
    if "--prefix" not in options:
        assert message in error_of("translate", "--model", number_model, " ", *options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported_by_the_option(error_of, number_model):
    for command in (["translate", "one", "--model"], ["evaluate"]):
        error = error_of(*command, number_model, "--device", "cuda")
        assert error == "--device: 'cuda', but torch finds no GPU here; use 'auto' or 'cpu'"


def test_a_text_that_is_too_long_is_named_and_all_others_are_translated(call, number_model):
    texts = ["one two", "", "three four", "five " * 16, "six"]
    for arguments, stdin in ((texts, b""), ([], "\n".join(texts).encode())):
        for batch_size in (1, 2, 512):
            result = call(
                "translate", "--model", number_model, "--batch-size", batch_size, *arguments, stdin=stdin
            )
            assert result.code == 2
            assert result.lines == ["1 2", "", "3 4", "", "6"]
            assert result.err == (
                "clearhead: text 4 ('five five five five five five five five…'): 16 tokens, but the model "
                "takes at most 15; split it; texts too long: 1; all others are translated\n"
            )


def test_a_long_text_of_several_lines_is_named_in_one_line(call, number_model):
    result = call("translate", "--model", number_model, "one\n" * 16)
    assert result.code == 2
    assert "('one one one" in result.err
    assert len(result.err.splitlines()) == 1


def test_stdin_that_is_not_utf8_is_named_by_line(call, number_model):
    result = call("translate", "--model", number_model, stdin=b"one two\n\nthr\xffee\nfour\n")
    assert result.code == 2
    assert result.lines == ["1 2", ""]
    message = "stdin, line 3: not UTF-8 (byte 0xff); save it as UTF-8"
    assert result.err == f"clearhead: {message}\n"


def test_an_argument_that_is_not_utf8_is_named(call, number_model):
    result = call("translate", "--model", number_model, "one two", os.fsdecode(b"thr\xffee"), "--json")
    assert result.code == 2
    assert len(result.lines) == 1
    assert result.err == "clearhead: text 2: not UTF-8; encode it as UTF-8\n"

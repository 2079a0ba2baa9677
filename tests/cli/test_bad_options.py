"""Wrong recipes, options and texts cost a line that names place, value and way out, and nothing else."""

import os

import pytest
import torch

TEN_MISTAKES = """
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
schedule = { kind = "cosine", peak = -1.0 }
"""


def test_ten_mistakes_in_a_recipe_are_ten_lines(call, tmp_path):
    recipe = tmp_path / "wrong.toml"
    recipe.write_text(TEN_MISTAKES)
    ended = call("train", recipe, "--out", tmp_path / "out")
    said = ended.err.splitlines()
    assert ended.code == 2
    assert [line.removeprefix(f"clearhead: {recipe}: ").partition(":")[0] for line in said] == [
        "kind",
        "data.source",
        "data.train",
        "tokenizer.kind",
        "model.attention.score",
        "model.widht",
        "batches.tokens",
        "training.steps",
        "training.schedule.learning_rate",
        "colour",
    ]
    assert "unknown setting (did you mean width?)" in ended.err
    assert "language 'english' is unknown; did you mean en (English)?" in ended.err
    assert "'cos' is not one of dot, scaled, general, additive, cosine, location" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"[data\n", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8 text (byte 0); save it as UTF-8"),
        (b"", "data: is missing"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_named(content, message, refused, tmp_path):
    recipe = tmp_path / "recipe.toml"
    if content is not None:
        recipe.write_bytes(content)
    said = refused("train", recipe, "--out", tmp_path / "out")
    assert said.startswith(f"{recipe}: ")
    assert message in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nonsense", "--set nonsense: write it as name=value, for example model.width=256"),
        ("model.width=wide", "model.width: 'wide' is not a whole number"),
        ("model.width=33", "33"),
        ("model.widht=32", "model.widht: unknown setting (did you mean width?)"),
        ("data.source.x=1", "--set data.source.x=1: source is a value, not a group of settings"),
        ("training.monitor=chrf", "training.monitor: 'chrf' is not one of loss, bleu"),
    ],
)
def test_a_wrong_change_is_refused(change, message, refused, tmp_path, number_recipe):
    said = refused("train", number_recipe(tmp_path), "--out", tmp_path / "out", "--set", change)
    assert message in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "--out: name a folder for the model, for example --out runs/mine"),
        (
            ["train", "--out", "x"],
            "train: give either a recipe or --pairs FILE or --text FILE (see clearhead train --help)",
        ),
        (["train", "r.toml", "--pairs", "p.tsv", "--out", "x"], "give either a recipe or --pairs FILE"),
        (["train", "r.toml", "--resume", "--out", "x"], "--resume: goes on with the recipe saved in --out"),
        (
            ["train", "--pairs", "p.tsv", "--from", "en", "--out", "x"],
            "--from and --to: give both, or neither",
        ),
        (["train", "r.toml", "--to", "de", "--out", "x"], "--from and --to: go with --pairs"),
        (["train", "--pairs", "p", "--from", "en", "--to", "xx", "--out", "x"], "language 'xx' is unknown"),
        (["trian"], "No such command 'trian'. Did you mean 'train'? (see clearhead --help)"),
        (
            ["translate", "--beam", "wide"],
            "--beam: 'wide' is not a whole number (see clearhead translate --help)",
        ),
        (
            ["generate", "--top-p", "most", "x"],
            "--top-p: 'most' is not a number (see clearhead generate --help)",
        ),
        (["evaluate", "m", "--stride", "0"], "--stride: '0' should be greater than or equal to 1"),
        (["evaluate"], "Missing argument 'M'. (see clearhead evaluate --help)"),
        (["data", "get", "wmt99"], "wmt99: no such dataset; choose from tatoeba-en-de, tatoeba-en-fr"),
    ],
)
def test_a_command_that_does_not_hang_together_is_refused(arguments, message, refused):
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "0"], "--beam: 0 should be at least 1"),
        (["--nbest", "6"], "--nbest: 6 should be from 1 to the beam, 5"),
        (["--nbest", "0"], "--nbest: 0 should be from 1 to the beam, 5"),
        (["--nbest", "2", "--top-k", "3"], "--nbest: 2 goes with a beam; draw with several seeds instead"),
        (["--beam", "4", "--top-k", "3"], "--beam: 4 goes with a search, but drawing was asked for"),
        (["--alpha", "1", "--top-k", "3"], "--alpha: 1.0 goes with a search, but drawing was asked for"),
        (["--alpha", "-1"], "--alpha: -1.0 should be from 0 to 10 (0 leaves lengths alone)"),
        (["--alpha", "nan"], "--alpha: nan should be from 0 to 10"),
        (["--alpha", "inf"], "--alpha: inf should be from 0 to 10"),
        (
            ["--temperature", "0"],
            "--temperature: 0.0 should be finite and at least 1e-06; use greedy search",
        ),
        (["--temperature", "inf"], "--temperature: inf should be finite and at least 1e-06"),
        (["--top-k", "0"], "--top-k: 0 should be at least 1"),
        (["--top-p", "0"], "--top-p: 0.0 should be greater than 0 and at most 1"),
        (["--min-p", "2"], "--min-p: 2.0 should be from 0 to 1"),
        (
            ["--repetition-penalty", "0"],
            "--repetition-penalty: 0.0 should be from 0.01 to 100 (1 changes nothing)",
        ),
        (["--repetition", "nan"], "--repetition-penalty: nan should be from 0.01 to 100 (1 changes nothing)"),
        (["--no-repeat", "-1"], "--no-repeat: -1 should be at least 0 (0 forbids nothing)"),
        (["--prefix", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7"], "reach its max_length"),
        (["--to", "fr"], "--to fr: this model translates en-de only"),
        (["--to", "german"], "--to german: this model translates en-de only (did you mean de?)"),
        (["--device", "tpu"], "--device tpu: is not one of auto, cpu, cuda"),
        (["--seed", str(1 << 70), "--top-k", "3"], "should be from 0 to 4611686018427387904"),
        (["--seed", "3"], "--seed 3: goes with --temperature, --top-k, --top-p or --min-p"),
        (["--at-once", "0"], "--at-once"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_refused(options, message, refused, number_model):
    assert message in refused("translate", "--model", number_model, "one two", *options)
    # Whether a prefix fits depends on the text; all else is wrong whatever the text.
    if "--prefix" not in options:
        assert message in refused("translate", "--model", number_model, " ", *options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_as_it_was_asked_for(refused, number_model):
    for command in (["translate", "one", "--model"], ["evaluate"]):
        said = refused(*command, number_model, "--device", "cuda")
        assert said == "--device: 'cuda', but torch finds no GPU here; use 'auto' or 'cpu'"


def test_a_text_too_long_is_named_and_all_others_are_translated(call, number_model):
    texts = ["one two", "", "three four", "five " * 16, "six"]
    for arguments, stdin in ((texts, b""), ([], "\n".join(texts).encode())):
        for at_once in (1, 2, 512):
            ended = call("translate", "--model", number_model, "--at-once", at_once, *arguments, stdin=stdin)
            assert ended.code == 2
            assert ended.lines == ["1 2", "", "3 4", "", "6"]
            message = "text 4 ('five five five five five five five five…'): 16 tokens, and the model takes 15"
            rest = "split it; 1 such left blank, all others are translated"
            assert ended.err == f"clearhead: {message}: {rest}\n"


def test_a_text_too_long_that_has_several_lines_is_named_in_one(call, number_model):
    ended = call("translate", "--model", number_model, "one\n" * 16)
    assert ended.code == 2
    assert "('one one one" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_standard_input_that_is_not_utf8_is_named_by_line(call, number_model):
    ended = call("translate", "--model", number_model, stdin=b"one two\n\nthr\xffee\nfour\n")
    assert ended.code == 2
    assert ended.lines == ["1 2", ""]
    message = "standard input, line 3: not UTF-8 (byte 0xff); the lines before it are translated"
    assert ended.err == f"clearhead: {message}\n"


def test_an_argument_that_is_not_utf8_is_named(call, number_model):
    ended = call("translate", "--model", number_model, "one two", os.fsdecode(b"thr\xffee"), "--json")
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert ended.err == "clearhead: text 2: not UTF-8; the texts before it are translated\n"

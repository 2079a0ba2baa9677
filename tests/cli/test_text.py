"""Language models from the command line: train on a text, evaluate on another."""

import json
import re

import pytest


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "my.txt"
    path.write_text("".join(f"{number} and one is {number + 1}.\n" for number in range(300)))
    return path


SMALL = [f"--set={change}" for change in ("training.steps=6", "training.device=cpu", "model.width=16")]


def test_a_model_trained_on_a_text_can_be_evaluated_and_used(call, text, tmp_path):
    result = call("train", "--text", text, "--out", tmp_path / "run", *SMALL)
    assert result.code == 0, result.err
    assert "tokenizer: 20 characters" in result.err
    assert "model: width 16, ffn_width 256, 2 layers" in result.err
    assert re.search(r"bits per byte [\d.]+, best so far", result.err)
    assert "try it: clearhead generate --model" in result.err
    kept = json.loads(call("evaluate", tmp_path / "run", "--json").out)
    assert kept["bits_per_byte"] == pytest.approx(kept["loss"] / 0.6931472, rel=0.01)
    other = call("evaluate", tmp_path / "run", "--text", text, "--stride", 7)
    assert other.out.splitlines()[0].endswith("in 1 document")
    assert "(window 64 tokens, stride 7)" in other.out
    again = call("train", "--resume", "--out", tmp_path / "run", "--set", "training.steps=8")
    assert again.code == 0
    assert "resumed after step 6" in again.err
    assert "bits per byte" in call("models", tmp_path).out
    assert call("generate", "1 and", "--model", tmp_path / "run", "--tokens", 5).code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad.txt: contains no text; name another file"),
        (b" \n\n ", "bad.txt: contains no text; name another file"),
        (b"x", "bad.txt: 1 character of text; a language model needs at least 100, better a million"),
        (b"ab\0c" * 100, "bad.txt, line 1: contains NUL bytes, so it is not UTF-8 text; convert it first"),
        (
            b"fine\n\xe9t\xe9\n" * 100,
            "bad.txt, line 2: not UTF-8 (byte 0xe9 at offset 5); save the file as UTF-8",
        ),
    ],
)
def test_an_unusable_text_is_rejected(error_of, tmp_path, content, message):
    (tmp_path / "bad.txt").write_bytes(content)
    assert error_of("train", "--text", tmp_path / "bad.txt", "--out", tmp_path / "run").endswith(message)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_rejected_before_the_text_is_read(error_of, babbler, tmp_path):
    (tmp_path / "short.txt").write_text("to")
    error = error_of("train", "--text", tmp_path / "short.txt", "--out", babbler)
    assert error == f"{babbler}: already holds a run; continue it with --resume, or choose another folder"


def test_contradictory_options_are_rejected(error_of, text, number_model, babbler, tmp_path):
    out = ["--out", tmp_path / "run"]
    both = error_of("train", "--text", text, "--pairs", text, *out)
    assert both == "--pairs and --text: train takes only one of them; omit the others"
    assert error_of("train", text, *out).endswith(f"for text --text {text}")
    assert "no such file or folder" in error_of("train", "--text", tmp_path / "no.txt", *out)
    for option, value in (("--text", text), ("--stride", 3)):
        error = error_of("evaluate", number_model, option, value)
        assert error.startswith(f"{option}: {number_model} translates; it takes --pairs, --against")
    options = (("--pairs", text), ("--beam", 3), ("--length-penalty", 0), ("--from", "en"), ("--to", "de"))
    for option, value in options:
        error = error_of("evaluate", babbler, option, value)
        assert error == f"{option}: {babbler} continues text; it takes --text, --field, --stride"
    assert "this folder has no held-out text" in error_of("evaluate", babbler)
    (tmp_path / "one.txt").write_text("t")
    assert "too short to predict anything" in error_of("evaluate", babbler, "--text", tmp_path / "one.txt")
    (tmp_path / "empty.txt").touch()
    error = error_of("evaluate", babbler, "--text", tmp_path / "empty.txt")
    assert error == f"{tmp_path}/empty.txt: contains no text; name another file"


def test_the_field_of_a_text_can_be_chosen(call, error_of, babbler, tmp_path):
    lines = [json.dumps({"id": "7", "story": "to be or not"}), json.dumps({"id": "8", "story": "to be"})]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    (tmp_path / "text.jsonl").write_text("\n".join(lines).replace("story", "text"))
    error = error_of("evaluate", babbler, "--text", tmp_path / "x.jsonl")
    assert error.endswith("name it (train: --set data.field=story, evaluate: --field story)")
    named = call("evaluate", babbler, "--text", tmp_path / "x.jsonl", "--field", "story", "--json")
    assert json.loads(named.out) == json.loads(
        call("evaluate", babbler, "--text", tmp_path / "text.jsonl", "--json").out
    )
    assert "no field 'missing'; it has" in error_of(
        "evaluate", babbler, "--text", tmp_path / "x.jsonl", "--field", "missing"
    )
    assert error_of("evaluate", babbler, "--field", "story").startswith("--field story: needs --text FILE")


def test_an_output_folder_never_replaces_a_file(error_of, text, babbler, tmp_path):
    before = text.read_text()
    for out, file in ((text, ""), (text / "run", f"{text} ")):
        message = f"{out}: {file}is a file, not a folder; choose a folder to write to"
        assert error_of("train", "--text", text, "--out", out) == message
        assert error_of("export", babbler, "--to", "int8", "--out", out) == message
    assert text.read_text() == before

"""Language models from the command line: a text in, a model out, and how well it foresees another."""

import json

import pytest


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "my.txt"
    path.write_text("".join(f"{number} and one is {number + 1}.\n" for number in range(300)))
    return path


SMALL = [f"--set={change}" for change in ("training.steps=6", "training.device=cpu", "model.width=16")]


def test_a_text_alone_makes_a_model_that_can_be_measured_and_used(call, text, tmp_path):
    ended = call("train", "--text", text, "--out", tmp_path / "run", *SMALL)
    assert ended.code == 0, ended.err
    assert "tokenizer: each of 20 characters is a token" in ended.err
    assert "model: width 16, hidden 256, 2 layers" in ended.err
    assert "bits per byte, the best so far" in ended.err
    assert "try it: clearhead generate --model" in ended.err
    kept = json.loads(call("evaluate", tmp_path / "run", "--json").out)
    assert kept["bits_per_byte"] == pytest.approx(kept["loss"] / 0.6931472, rel=0.01)
    other = call("evaluate", tmp_path / "run", "--text", text, "--stride", 7)
    assert other.out.splitlines()[0].endswith("in 1 document")
    assert "(a window of 64 tokens, moved by 7)" in other.out
    again = call("train", "--resume", "--out", tmp_path / "run", "--set", "training.steps=8")
    assert again.code == 0
    assert "resumed after step 6" in again.err
    assert "bits per byte" in call("models", tmp_path).out
    assert call("generate", "1 and", "--model", tmp_path / "run", "--tokens", 5).code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "bad.txt: holds no text"),
        (b" \n\n ", "bad.txt: holds no text"),
        (b"x", "bad.txt: 1 character of text; a language model needs at least 100, better a million"),
        (b"ab\0c" * 100, "bad.txt, line 1: contains NUL bytes, so it is not UTF-8 text; convert it first"),
        (b"fine\n\xe9t\xe9\n" * 100, "bad.txt, line 2: not UTF-8 (byte 0xe9); save the file as UTF-8"),
    ],
)
def test_a_text_that_cannot_be_learned_from_is_refused(refused, tmp_path, content, said):
    (tmp_path / "bad.txt").write_bytes(content)
    assert refused("train", "--text", tmp_path / "bad.txt", "--out", tmp_path / "run").endswith(said)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_refused_before_a_text_is_read(refused, babbler, tmp_path):
    (tmp_path / "short.txt").write_text("to")
    said = refused("train", "--text", tmp_path / "short.txt", "--out", babbler)
    assert said == f"{babbler}: holds a run already; go on with it (--resume), or choose another folder"


def test_what_does_not_go_together_is_refused(refused, text, number_model, babbler, tmp_path):
    out = ["--out", tmp_path / "run"]
    both = refused("train", "--text", text, "--pairs", text, *out)
    assert both.startswith("train: give either a recipe or --pairs FILE or --text FILE")
    assert refused("train", text, *out).endswith(f"for a text: --text {text}")
    assert "no such file or folder" in refused("train", "--text", tmp_path / "no.txt", *out)
    assert "is measured on --pairs" in refused("evaluate", number_model, "--text", text)
    assert "is measured on --pairs" in refused("evaluate", number_model, "--stride", 3)
    for option in (("--pairs", text), ("--beam", 3), ("--alpha", 0), ("--from", "en"), ("--to", "de")):
        assert "is measured on --text" in refused("evaluate", babbler, *option)
    assert "no text is kept beside this model" in refused("evaluate", babbler)
    (tmp_path / "one.txt").write_text("t")
    assert "too short to foresee" in refused("evaluate", babbler, "--text", tmp_path / "one.txt")
    (tmp_path / "empty.txt").touch()
    said = refused("evaluate", babbler, "--text", tmp_path / "empty.txt")
    assert said == f"{tmp_path}/empty.txt: holds no text; name another file"


def test_the_field_of_a_text_can_be_named(call, refused, babbler, tmp_path):
    lines = [json.dumps({"id": "7", "story": "to be or not"}), json.dumps({"id": "8", "story": "to be"})]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    (tmp_path / "text.jsonl").write_text("\n".join(lines).replace("story", "text"))
    said = refused("evaluate", babbler, "--text", tmp_path / "x.jsonl")
    assert said.endswith("name one (train: --set data.field=NAME, evaluate: --field NAME)")
    named = call("evaluate", babbler, "--text", tmp_path / "x.jsonl", "--field", "story", "--json")
    assert json.loads(named.out) == json.loads(
        call("evaluate", babbler, "--text", tmp_path / "text.jsonl", "--json").out
    )
    assert "no field 'nobody'; it has" in refused(
        "evaluate", babbler, "--text", tmp_path / "x.jsonl", "--field", "nobody"
    )
    assert refused("evaluate", babbler, "--field", "story").startswith("--field story: goes with --text FILE")


def test_a_model_is_written_into_a_folder_and_never_over_a_text(refused, text, babbler, tmp_path):
    before = text.read_text()
    for out, where in ((text, ""), (text / "run", f"{text} ")):
        wanted = f"{out}: {where}is a file, not a folder; name a folder to write into"
        assert refused("train", "--text", text, "--out", out) == wanted
        assert refused("export", babbler, "--to", "int8", "--out", out) == wanted
    assert text.read_text() == before

"""clearhead explain: pictures and numbers of what a text does inside a model."""

import json

import pytest


def test_a_translation_is_drawn_where_it_is_wanted(call, number_model, tmp_path):
    ended = call("explain", number_model, "three one", "--out", tmp_path / "x.svg")
    assert ended.code == 0
    assert ended.out == f"{tmp_path / 'x.svg'}\n"
    assert "three one -> 3 1" in ended.err
    assert "differ by at most" in ended.err
    assert "three" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("out", "options", "said"),
    [
        ("x.svg", [], "other pictures: --view atlas, head, "),
        ("x.svg", ["--view", "atlas"], "other pictures: --view cross, head, "),
        ("x.html", [], None),
        ("all", [], None),
    ],
)
def test_the_pictures_that_are_not_drawn_are_named(call, number_model, tmp_path, out, options, said):
    ended = call("explain", number_model, "three one", "--out", tmp_path / out, *options)
    assert ended.code == 0
    assert said in ended.err if said else "other pictures" not in ended.err


def test_a_prompt_is_continued_and_drawn(call, babbler, tmp_path):
    ended = call(
        "explain", babbler, "--tokens", 3, "--view", "lens", "--out", tmp_path / "x.png", stdin=b"to be\n"
    )
    assert ended.code == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_it_is_said_when_less_can_be_written_than_was_asked_for(call, babbler, tmp_path):
    ended = call("explain", babbler, "to be", "--tokens", 100, "--out", tmp_path / "x.json")
    assert ended.err.startswith("--tokens 100: 27 fit behind the text into the model's context of 32\n")


def test_json_tells_where_the_file_is(call, number_model, tmp_path):
    ended = call("explain", number_model, "three one", "--out", tmp_path / "x.json", "--json")
    assert json.loads(ended.out) == {"text": "three one", "output": "3 1", "file": str(tmp_path / "x.json")}
    assert json.loads((tmp_path / "x.json").read_text())["output"] == "3 1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "x.gif"], "x.gif: cannot write .gif files; use .png, .svg, .pdf"),
        (["--out", "none/x.png"], "none/x.png: there is no folder none; create it first"),
        (["--view", "left"], "--view: 'left' is not one of cross, atlas, head"),
        (["--view", "head", "--layer", "9"], "--layer: 9 is out of range"),
        (["--tokens", "5"], "--tokens 5: "),
        (["--to", "fr"], "--to fr: this model translates en-de only"),
        (["--target", ""], "--target: is blank; give a translation, or leave it out for the model's own"),
        (["--target", " \u200b"], "--target: is blank"),
        (["--attention", "up", "--view", "atlas"], "--attention: 'up' is not one of encoder, decoder, cross"),
    ],
)
def test_what_is_wrong_is_said_with_a_way_out(refused, number_model, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    assert refused("explain", number_model, "one two", *options).startswith(said)
    assert not list(tmp_path.iterdir())


def test_a_language_model_has_no_language_to_write(refused, babbler, tmp_path):
    said = refused("explain", babbler, "to be", "--to", "de", "--out", tmp_path / "x.png")
    assert said == f"--to de: {babbler} continues texts, so that is not for it; leave it out"


def test_a_blank_text_is_refused(refused, number_model, tmp_path):
    assert "blank" in refused("explain", number_model, " ", "--out", tmp_path / "x.png")

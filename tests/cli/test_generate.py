"""clearhead generate as a user calls it."""

import json

import pytest

from clearhead.tasks.load import load_for


def test_a_text_is_continued(call, babbler):
    ended = call("generate", "to be", "--model", babbler, "--tokens", 20, "--seed", 3)
    assert ended.code == 0
    assert ended.err == ""
    assert ended.out == str(load_for("language", babbler).generate("to be", tokens=20, seed=3)) + "\n"


def test_standard_input_is_one_prompt(call, babbler):
    ended = call("generate", "--model", babbler, "--tokens", 5, stdin=b"to be\nor not\n")
    assert ended.out.startswith("to be\nor not")
    assert ended.out == str(load_for("language", babbler).generate("to be\nor not", tokens=5)) + "\n"
    windows = call("generate", "--model", babbler, "--tokens", 5, stdin=b"to be\r\nor not\r\n")
    assert windows.out == ended.out


def test_several_prompts_and_samples_are_told_apart_in_json(call, babbler):
    options = ["--tokens", 6, "--samples", 2, "--logprobs", 2, "--json", "--temperature", 1.0]
    ended = call("generate", "to be", "not", "--model", babbler, *options)
    records = [json.loads(line) for line in ended.lines]
    assert [record["prompt"] for record in records] == ["to be", "to be", "not", "not"]
    for record in records:
        assert len(record["log_probabilities"]) == len(record["alternatives"]) <= 6
        assert record["ended"] in ("length", "end")
        assert record["log_probability"] == pytest.approx(sum(record["log_probabilities"]))


def test_a_prompt_beyond_the_context_is_said(call, babbler):
    ended = call("generate", "to be " * 10, "--model", babbler, "--tokens", 4)
    assert ended.code == 0
    assert (
        ended.err == "prompt 1: does not fit into the model's context of 32: its first 28 tokens are unseen\n"
    )
    cut = call("generate", "to be " * 10, "--model", babbler, "--tokens", 4, "--overflow", "cut", "--json")
    assert json.loads(cut.out)["unseen"] == 60 - (32 - 4 + 1)
    said = "prompt 2: does not fit into the model's context of 32: its first token is unseen\n"
    options = ["--tokens", 4, "--samples", 2, "--overflow", "cut"]
    assert call("generate", "to", "to be " * 5, "--model", babbler, *options).err == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["to ß"], "prompt 1: character 4, 'ß' (U+00DF), is not in the model's vocabulary; leave it out"),
        (["to", "--temperature", -1], "--temperature: -1.0 should be 0, which takes the best token, or more"),
        (["to", "--top-p", 0], "--top-p: 0.0 should be greater than 0 and at most 1"),
        (["to", "--top-k", 0], "--top-k: 0 should be at least 1"),
        (["to", "--tokens", 0], "--tokens: 0 should be at least 1"),
        (["to", "--stop", ""], "--stop: is empty"),
        (["to", "--overflow", "wrap"], "--overflow: 'wrap' is not one of slide, cut"),
        (
            ["to", "--tokens", 40, "--overflow", "cut"],
            "--tokens: 40 do not fit into the model's context of 32",
        ),
        (["to", "--samples", 0], "--samples: 0 should be at least 1"),
        (["to", "--repetition-penalty", 0], "--repetition-penalty: 0.0 should be from 0.01 to 100"),
        (["to", "--logprobs", 3], "--logprobs 3: is told as JSON alone; add --json"),
        (["to", "be\udcff"], "prompt 2: not UTF-8"),
    ],
)
def test_what_cannot_be_done_is_named(refused, babbler, arguments, message):
    assert refused("generate", *arguments, "--model", babbler).startswith(message)


def test_nul_bytes_and_broken_bytes_are_named(refused, babbler):
    said = refused("generate", "--model", babbler, stdin=b"to\0be")
    assert said == "prompt 1: character 3 is NUL; take it out"
    said = refused("generate", "--model", babbler, stdin=b"to\xffbe")
    assert said == "standard input: not UTF-8 (byte 0xff at 2); write it as UTF-8"


def test_a_translator_is_not_asked_to_continue(refused, number_model, babbler):
    assert "use clearhead translate" in refused("generate", "one", "--model", number_model)
    assert "use clearhead generate" in refused("translate", "one", "--model", babbler)

"""clearhead generate, as a user calls it."""

import json

import pytest

from clearhead.tasks.load import load_for


def test_a_text_is_continued(call, babbler):
    result = call("generate", "to be", "--model", babbler, "--tokens", 20, "--seed", 3)
    assert result.code == 0
    assert result.err == ""
    assert result.out == str(load_for("language", babbler).generate("to be", tokens=20, seed=3)) + "\n"


def test_stdin_is_one_prompt(call, babbler):
    result = call("generate", "--model", babbler, "--tokens", 5, stdin=b"to be\nor not\n")
    assert result.out.startswith("to be\nor not")
    assert result.out == str(load_for("language", babbler).generate("to be\nor not", tokens=5)) + "\n"
    windows = call("generate", "--model", babbler, "--tokens", 5, stdin=b"to be\r\nor not\r\n")
    assert windows.out == result.out


def test_json_has_one_record_per_prompt_and_sample(call, babbler):
    options = ["--tokens", 6, "--samples", 2, "--logprobs", 2, "--json", "--temperature", 1.0]
    result = call("generate", "to be", "not", "--model", babbler, *options)
    records = [json.loads(line) for line in result.lines]
    assert [record["prompt"] for record in records] == ["to be", "to be", "not", "not"]
    for record in records:
        assert len(record["log_probs"]) == len(record["alternatives"]) <= 6
        assert record["ended"] in ("length", "end")
        assert record["sum_log_prob"] == pytest.approx(sum(record["log_probs"]))


def test_a_prompt_longer_than_the_context_is_reported(call, babbler):
    result = call("generate", "to be " * 10, "--model", babbler, "--tokens", 4)
    assert result.code == 0
    assert result.err == "prompt 1: longer than the context of 32 tokens; its first 28 tokens are ignored\n"
    cut = call("generate", "to be " * 10, "--model", babbler, "--tokens", 4, "--overflow", "cut", "--json")
    assert json.loads(cut.out)["truncated"] == 60 - (32 - 4 + 1)
    status = "prompt 2: longer than the context of 32 tokens; its first token is ignored\n"
    options = ["--tokens", 4, "--samples", 2, "--overflow", "cut"]
    assert call("generate", "to", "to be " * 5, "--model", babbler, *options).err == status


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["to", "--temperature", -1], "--temperature: -1.0 should be 0 (greedy) or more"),
        (["to", "--top-p", 0], "--top-p: 0.0 should be greater than 0 and at most 1"),
        (["to", "--top-k", 0], "--top-k: 0 should be at least 1"),
        (["to", "--tokens", 0], "--tokens: 0 should be at least 1"),
        (["to", "--stop", ""], "--stop: an empty string would end every text at once"),
        (["to", "--overflow", "wrap"], "--overflow: 'wrap' is not one of slide, cut"),
        (
            ["to", "--tokens", 40, "--overflow", "cut"],
            "--tokens: 40 do not fit into the model's context of 32",
        ),
        (["to", "--samples", 0], "--samples: 0 should be at least 1"),
        (["to", "--repetition-penalty", 0], "--repetition-penalty: 0.0 should be from 0.01 to 100"),
        (["to", "--logprobs", 3], "--logprobs 3: needs --json"),
        (["to", "be\udcff"], "prompt 2: not UTF-8; encode it as UTF-8"),
    ],
)
def test_invalid_options_are_rejected(error_of, babbler, arguments, message):
    assert error_of("generate", *arguments, "--model", babbler).startswith(message)


def test_nul_characters_and_invalid_bytes_are_named(error_of, babbler):
    error = error_of("generate", "--model", babbler, stdin=b"to\0be")
    assert error == "prompt 1: character 3 is NUL; remove it"
    error = error_of("generate", "--model", babbler, stdin=b"to\xffbe")
    assert error == "stdin: not UTF-8 (byte 0xff at offset 2); save it as UTF-8"


def test_a_model_of_another_task_names_its_command(error_of, number_model, babbler):
    assert "use clearhead translate" in error_of("generate", "one", "--model", number_model)
    assert "use clearhead generate" in error_of("translate", "one", "--model", babbler)

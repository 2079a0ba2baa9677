import json

import pytest

from clearhead.errors import DataError, SettingsError
from clearhead.models import GPTConfig
from clearhead.tasks.language.sizing import SIZES, fit_text


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "text.txt").write_text(text)
        return str(tmp_path / "text.txt")

    return write


def test_a_short_text_is_taken_by_characters_and_a_long_one_by_merged_bytes(written):
    short = fit_text([written("some words, and more of them.\n" * 50)])
    assert short.recipe.tokenizer.kind == "character"
    assert short.recipe.tokenizer.vocabulary == 4 + len(short.survey.alphabet)
    long = fit_text([written("some words, and more of them.\n" * 200_000)])
    assert (long.recipe.tokenizer.kind, long.recipe.tokenizer.vocabulary) == ("bytes", 4000)
    assert long.recipe.model.width > short.recipe.model.width
    assert long.products > short.products


def test_a_text_of_very_many_characters_is_taken_by_bytes(written):
    chinese = fit_text([written("".join(chr(0x4E00 + number) for number in range(2000)))])
    assert chinese.recipe.tokenizer.kind == "bytes"


def test_what_was_chosen_is_said(written):
    choices = fit_text([written("some words, and more of them.\n" * 50)]).choices()
    assert choices[0] == "text: 1,500 characters in 1 document"
    assert choices[1] == "tokenizer: each of 16 characters is a token"
    assert choices[2].startswith("model: width 64, hidden 256, 2 layers, 2 heads, sees 64 tokens")


def test_blank_records_are_left_out_and_said(tmp_path):
    texts, pairs = tmp_path / "texts.jsonl", tmp_path / "pairs.jsonl"
    written = "".join(f'{{"text": "words, and {number} more"}}\n' for number in range(60))
    texts.write_text(written + '{"text": null}\n{"text": ""}\n{"text": " \\n"}\n')
    assert fit_text([str(texts)]).choices()[0].endswith("in 60 documents; 3 blank ones are left out")
    written = "".join(f'{{"prompt": "{number}?", "answer": "{number}"}}\n' for number in range(60))
    pairs.write_text(written + '{"prompt": "0?", "answer": null}\n{"prompt": "", "answer": "0"}\n')
    fitted = fit_text([str(pairs)], ["data.template={prompt} {answer}"])
    assert fitted.choices()[0].endswith("in 60 documents; 2 blank ones are left out")


def test_copies_among_the_documents_are_said(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "words, and {number % 50} more"}}\n' for number in range(60)))
    assert fit_text([str(path)]).choices()[0].endswith("in 60 documents, of which 10 are copies of others")


def test_changes_take_precedence(written):
    fitted = fit_text([written("some words\n" * 50)], ["model.width=32", "training.steps=7"])
    assert (fitted.recipe.model.width, fitted.recipe.training.steps) == (32, 7)
    assert fitted.recipe.training.schedule.model_dump()["warmup"] == 1
    with pytest.raises(SettingsError, match=r"model\.widht: unknown setting \(did you mean width\?\)"):
        fit_text([written("some words\n" * 50)], ["model.widht=32"])


@pytest.mark.parametrize("group", ["model", "training", "data"])
def test_a_value_where_a_group_of_settings_belongs_is_refused_by_name(written, group):
    with pytest.raises(SettingsError, match=f"^{group}: 3 is a value, but this is a group of settings"):
        fit_text([written("some words\n" * 50)], [f"{group}=3"])


@pytest.mark.parametrize("preset", ["gpt2", "modern"])
def test_a_preset_that_is_named_is_the_model(written, preset):
    text = written("some words\n" * 50)
    assert fit_text([text], [f"model.preset={preset}"]).recipe.model == GPTConfig.model_validate(
        {"preset": preset}
    )
    smaller = fit_text([text], [f"model.preset={preset}", "model.layers=3"]).recipe.model
    assert smaller == GPTConfig.model_validate({"preset": preset, "layers": 3})


def test_prompts_with_answers_are_surveyed_as_the_model_reads_them(tmp_path):
    lines = (json.dumps({"prompt": str(number), "answer": "yes"}) + "\n" for number in range(10, 60))
    (tmp_path / "asked.jsonl").write_text("".join(lines))
    fitted = fit_text([str(tmp_path / "asked.jsonl")], ['data.template="{prompt}?{answer}"'])
    assert (len(fitted.survey), fitted.survey.characters) == (50, 50 * len("10?yes"))
    assert fitted.recipe.data.template == "{prompt}?{answer}"


def test_sizes_grow():
    assert [size.bytes for size in SIZES] == sorted(size.bytes for size in SIZES)
    assert [size.width for size in SIZES] == sorted(size.width for size in SIZES)


@pytest.mark.parametrize(("text", "said"), [("", "holds no text"), (" \n", "holds no text"), ("x", "1 char")])
def test_too_little_text_is_said(written, text, said):
    with pytest.raises(DataError, match=said):
        fit_text([written(text)])

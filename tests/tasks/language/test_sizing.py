"""A recipe is sized to its text, and the choices are listed."""

import json

import pytest

from clearhead.errors import DataError, SettingsError
from clearhead.models import GPTConfig
from clearhead.tasks.language.sizing import SIZES, fit_text
from clearhead.tasks.sizing import matrix_weights
from clearhead.training import TimeBudget


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "text.txt").write_text(text)
        return str(tmp_path / "text.txt")

    return write


def test_short_texts_get_a_character_tokenizer_and_long_ones_byte_level_bpe(written):
    short = fit_text([written("some words, and more of them.\n" * 50)])
    assert short.recipe.tokenizer.kind == "character"
    assert short.recipe.tokenizer.vocabulary == 4 + len(short.survey.alphabet)
    long = fit_text([written("some words, and more of them.\n" * 200_000)])
    assert (long.recipe.tokenizer.kind, long.recipe.tokenizer.vocabulary) == ("bytes", 4000)
    assert long.recipe.model.width > short.recipe.model.width
    assert matrix_weights(long.recipe) > matrix_weights(short.recipe)


def test_a_large_alphabet_gets_byte_level_bpe(written):
    chinese = fit_text([written("".join(chr(0x4E00 + number) for number in range(2000)))])
    assert chinese.recipe.tokenizer.kind == "bytes"


def test_the_choices_are_listed(written):
    choices = fit_text([written("some words, and more of them.\n" * 50)]).choices()
    assert choices[0] == "text: 1,500 characters in 1 document"
    assert choices[1] == "tokenizer: 16 characters"
    assert choices[2].startswith("model: width 64, ffn_width 256, 2 layers, 2 heads, context of 64 tokens")


def test_blank_records_are_left_out_and_counted(tmp_path):
    texts, pairs = tmp_path / "texts.jsonl", tmp_path / "pairs.jsonl"
    written = "".join(f'{{"text": "words, and {number} more"}}\n' for number in range(60))
    texts.write_text(written + '{"text": null}\n{"text": ""}\n{"text": " \\n"}\n')
    assert fit_text([str(texts)]).choices()[0].endswith("in 60 documents; 3 blank ones are left out")
    written = "".join(f'{{"prompt": "{number}?", "answer": "{number}"}}\n' for number in range(60))
    pairs.write_text(written + '{"prompt": "0?", "answer": null}\n{"prompt": "", "answer": "0"}\n')
    fitted = fit_text([str(pairs)], ["data.template={prompt} {answer}"])
    assert fitted.choices()[0].endswith("in 60 documents; 2 blank ones are left out")


def test_duplicate_documents_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "words, and {number % 50} more"}}\n' for number in range(60)))
    assert fit_text([str(path)]).choices()[0].endswith("in 60 documents, 10 of them duplicates")


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
def test_a_requested_preset_replaces_the_sized_model(written, preset):
    text = written("some words\n" * 50)
    assert fit_text([text], [f"model.preset={preset}"]).recipe.model == GPTConfig.model_validate(
        {"preset": preset}
    )
    smaller = fit_text([text], [f"model.preset={preset}", "model.layers=3"]).recipe.model
    assert smaller == GPTConfig.model_validate({"preset": preset, "layers": 3})


def test_prompts_with_answers_are_surveyed_in_the_template(tmp_path):
    lines = (json.dumps({"prompt": str(number), "answer": "yes"}) + "\n" for number in range(10, 60))
    (tmp_path / "questions.jsonl").write_text("".join(lines))
    fitted = fit_text([str(tmp_path / "questions.jsonl")], ['data.template="{prompt}?{answer}"'])
    assert (len(fitted.survey), fitted.survey.characters) == (50, 50 * len("10?yes"))
    assert fitted.recipe.data.template == "{prompt}?{answer}"


def test_sizes_grow():
    assert [size.bytes for size in SIZES] == sorted(size.bytes for size in SIZES)
    assert [size.width for size in SIZES] == sorted(size.width for size in SIZES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no text"),
        (" \n", "contains no text"),
        ("x", "1 character of text; a language model needs"),
    ],
)
def test_too_little_text_is_refused(written, text, message):
    with pytest.raises(DataError, match=message):
        fit_text([written(text)])


def test_a_time_budget_decides_model_and_steps(written, monkeypatch):
    text = written("".join(f"Line {number} of a text that is long enough.\n" for number in range(20_000)))
    usual, found = fit_text([text]).recipe, []
    for speed in (1e9, 1e13):
        monkeypatch.setattr(
            "clearhead.tasks.sizing.seconds_per_step",
            lambda recipe, loss, batch, clock, speed=speed: 6 * matrix_weights(recipe) * batch.tokens / speed,
        )
        budget = TimeBudget(1, lambda: 0.0)
        fitted = fit_text([text], budget=budget)
        found.append((fitted.recipe.model.width, fitted.recipe.training.steps == budget.max_steps))
    assert found == [(64, False), (usual.model.width, True)]


def test_the_speed_of_a_language_model_is_measured_by_training_it(written):
    fitted = fit_text([written("some words\n" * 500)], budget=TimeBudget(1))
    assert fitted.planned_seconds

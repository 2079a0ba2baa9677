"""Chats, instructions and other records are prompts with answers for language models, and pairs."""

import csv
import json

import pyarrow
import pytest
from pyarrow import parquet

from clearhead.data.pair import Pair
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.sources.documents import read_documents
from clearhead.data.sources.prompts import read_prompts, usual_template
from clearhead.errors import DataError
from clearhead.tasks.language.sizing import fit_text


def turns(
    *texts: str, system: str = "", names=("role", "content"), roles=("user", "assistant")
) -> list[dict]:
    said = [(roles[number % 2], text) for number, text in enumerate(texts)]
    opening = [("system", system)] if system else []
    return [dict(zip(names, turn, strict=True)) for turn in opening + said]


def written(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_every_turn_of_the_assistant_answers_all_before_it(tmp_path):
    chats = [
        {"messages": turns("Hi.", "Hello!", "How are you?", "Fine.", system="Be brief.")},
        {"messages": turns("One?", "1")},
        {"messages": turns("No answer.")},
    ]
    assert list(read_prompts(written(tmp_path / "x.jsonl", chats))) == [
        Pair("Be brief.\n\nHi.", "Hello!"),
        Pair("Be brief.\n\nHi.\nAssistant: Hello!\nUser: How are you?", "Fine."),
        Pair("One?", "1"),
    ]
    assert usual_template(tmp_path / "x.jsonl") == "User: {prompt}\nAssistant: {answer}"


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_chats_are_read_from_every_kind_of_record(tmp_path, kind):
    chats = [{"messages": turns("One?", "1", "Two?", "2"), "id": 1}]
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(chats), path)
    else:
        path.write_text(json.dumps(chats if kind == "json" else chats[0]))
    assert list(read_prompts(path)) == [Pair("One?", "1"), Pair("One?\nAssistant: 1\nUser: Two?", "2")]
    assert list(read_pairs(path, ("en", "de"))) == [Pair("One?", "1"), Pair("Two?", "2")]


def test_chats_have_other_names_too(tmp_path):
    said = turns("One?", "1", names=("from", "value"), roles=("human", "gpt"))
    parts = [{"role": "user", "content": [{"type": "text", "text": "Two?"}, {"type": "image_url"}]}]
    records = [{"conversations": said}, {"conversations": [*parts, {"role": "assistant", "content": "2"}]}]
    assert list(read_prompts(written(tmp_path / "x.jsonl", records))) == [
        Pair("One?", "1"),
        Pair("Two?", "2"),
    ]


def test_an_instruction_may_have_an_input(tmp_path):
    records = [
        {"instruction": "Translate it.", "input": "Yes.", "output": "Ja."},
        {"instruction": "Say hello.", "input": "", "output": "Hello."},
        {"instruction": "Say bye.", "output": "Bye."},
    ]
    (tmp_path / "x.json").write_text(json.dumps(records, indent=2))
    assert list(read_prompts(tmp_path / "x.json")) == [
        Pair("Translate it.\n\n### Input:\nYes.", "Ja."),
        Pair("Say hello.", "Hello."),
        Pair("Say bye.", "Bye."),
    ]
    assert usual_template(tmp_path / "x.json").startswith("### Instruction:\n{prompt}")  # pyright: ignore
    assert list(read_pairs(written(tmp_path / "y.jsonl", records[:1]), ("en", "de"))) == [Pair("Yes.", "Ja.")]


@pytest.mark.parametrize(
    ("names", "template"),
    [
        (("prompt", "completion"), "{prompt}{answer}"),
        (("prompt", "answer"), "{prompt}\n{answer}"),
        (("question", "answer"), "Question: {prompt}\nAnswer: {answer}"),
        (("instruction", "response"), "### Instruction:\n{prompt}\n\n### Response:\n{answer}"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
def test_two_fields_are_prompt_and_answer_and_pairs(tmp_path, names, template, kind):
    rows = [("One, two?", "3"), ("Four?", "5")]
    path = tmp_path / f"x.{kind}"
    if kind == "jsonl":
        written(path, [dict(zip(names, row, strict=True)) for row in rows])
    else:
        with path.open("w", newline="") as stream:
            csv.writer(stream, delimiter="," if kind == "csv" else "\t").writerows([names, *rows])
    assert list(read_prompts(path)) == [Pair(*row) for row in rows]
    assert list(read_pairs(path, ("en", "de"))) == [Pair(*row) for row in rows]
    assert usual_template(path) == template


def test_a_text_beside_a_prompt_is_read_as_text(tmp_path):
    path = written(tmp_path / "x.jsonl", [{"prompt": "a", "completion": "b", "text": "all of it"}])
    assert usual_template(path) is None
    assert [chunk.text for chunk in read_documents([path])] == ["all of it"]


def test_the_suggested_field_reads_the_whole_record(tmp_path):
    path = written(tmp_path / "x.jsonl", [{"messages": turns("One?", "1")}])
    with pytest.raises(
        DataError, match=r"--set data\.field=messages\.content, evaluate: --field messages\.con"
    ):
        list(read_documents([path]))
    assert [chunk.text for chunk in read_documents([path], "messages.content")] == ["One?\n1"]
    path = written(tmp_path / "y.jsonl", [{"instruction": "Do.", "input": "it", "output": "Done."}])
    with pytest.raises(DataError, match=r"--set data\.field=instruction\+input\+output"):
        list(read_documents([path]))
    assert [chunk.text for chunk in read_documents([path], "instruction+input+output")] == ["Do.\nit\nDone."]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"messages": "hello"}, """line 1: 'messages' has "hello"; write [{"role": "user","""),
        ({"messages": [{"role": "user"}]}, """line 1: 'messages' has {"role": "user"}; write"""),
        ({"messages": [{"role": "user", "content": 3}]}, "line 1: field 'messages.content' is 3, not text"),
        ({"prompt": 3, "completion": "x"}, "line 1: field 'prompt' is 3, not text"),
    ],
)
def test_records_that_are_no_prompts_get_one_clear_line(tmp_path, record, message):
    with pytest.raises(DataError) as caught:
        list(read_prompts(written(tmp_path / "x.jsonl", [record])))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_is_sized_with_the_usual_template(tmp_path):
    chats = [{"messages": turns(f"What is {n}?", f"It is {n}.")} for n in range(50)]
    path = str(written(tmp_path / "x.jsonl", chats))
    fitted = fit_text([path])
    assert fitted.recipe.data.template == "User: {prompt}\nAssistant: {answer}"
    assert "only the answers are learned" in fitted.choices()[1]
    assert (
        fit_text([path], [r"data.template={prompt}\n{answer}"]).recipe.data.template == "{prompt}\n{answer}"
    )
    assert fit_text([path], ["data.field=messages.content"]).recipe.data.template is None


def test_the_context_fits_the_prompts(tmp_path):
    records = [{"prompt": f"{n} " + "word " * 60, "completion": f" {n}"} for n in range(50)]
    fitted = fit_text([str(written(tmp_path / "x.jsonl", records))])
    assert fitted.recipe.model.context_length == 512
    assert fitted.recipe.batches.tokens >= 4 * 512

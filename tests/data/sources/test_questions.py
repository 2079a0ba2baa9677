"""Questions are read from SQuAD's JSON, from JSON Lines and from bAbI."""

import json
from pathlib import Path

import pytest

from clearhead.data.sources.questions import Question, read_questions
from clearhead.errors import DataError

TEXT = "Ada wrote to Bob. Bob read it."
QAS = [
    {"question": "Who read?", "answers": [{"text": "Bob", "answer_start": 18}]},
    {"question": "Who slept?", "answers": [], "is_impossible": True},
]
STORY = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel went back to the hallway.
5 Where is Daniel? \thallway\t4
1 John is here.
2 Who is here?\tJohn\t1
"""


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_squad_files_of_both_versions_are_read(tmp_path: Path):
    content = {"data": [{"title": "Letters", "paragraphs": [{"context": TEXT, "qas": QAS}]}]}
    found = list(read_questions(write(tmp_path / "a.json", content)))
    assert found == [
        Question(TEXT, "Who read?", ("Bob",), (18,), group="Letters"),
        Question(TEXT, "Who slept?", (), (), group="Letters"),
    ]


@pytest.mark.parametrize(
    ("record", "answers", "starts"),
    [
        ({"questions": [{"question": "Who read?", "answers": ["Bob"]}]}, ("Bob",), ()),
        ({"question": "Who read?", "answers": ["Bob", "Bob", "he"]}, ("Bob", "he"), ()),
        ({"question": "Who read?", "answer": "Bob"}, ("Bob",), ()),
        ({"question": "Who read?", "answers": {"text": ["Bob"], "answer_start": [18]}}, ("Bob",), (18,)),
        ({"question": "Who read?", "answer": {"text": "Bob", "answer_start": 18}}, ("Bob",), (18,)),
        ({"question": "Who read?", "answers": {"text": ["Bob", "he"]}}, ("Bob", "he"), ()),
        ({"question": "Who read?", "answers": []}, (), ()),
    ],
)
def test_all_usual_forms_of_json_lines_are_read(record, answers, starts, tmp_path: Path):
    path = write(tmp_path / "a.jsonl", json.dumps({"context": TEXT, **record}) + "\n\n")
    assert list(read_questions(path)) == [Question(TEXT, "Who read?", answers, starts, group=TEXT)]


def test_a_babi_question_has_the_statements_before_it_and_its_facts(tmp_path: Path):
    path = write(tmp_path / "qa1_train.txt", STORY)
    first, second, third = read_questions(path)
    assert first.context == "Mary moved to the bathroom.\nJohn went to the hallway."
    assert (first.question, first.answers, first.facts) == ("Where is Mary?", ("bathroom",), (0,))
    assert second.context.endswith("hallway.\nDaniel went back to the hallway.")
    assert second.facts == (2,)
    assert first.group == second.group != third.group
    assert third.context == "John is here."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.json",
            "{",
            "a.json: not valid JSON (Expecting property name enclosed in double quotes); download",
        ),
        ("a.json", [], "a.json: has no list 'data' as SQuAD's files have; name another file"),
        ("a.json", {"data": [{"paragraphs": 3}]}, "a.json, article 1: 'paragraphs' is 3; write"),
        ("a.jsonl", '{"context": "x"', "a.jsonl, line 1: not valid JSON"),
        ("a.jsonl", "[1]", "a.jsonl, record 1: expected a JSON object, got 1; write"),
        ("a.jsonl", {"question": "Who?"}, "a.jsonl, line 1: no field 'context'; write"),
        (
            "a.jsonl",
            {"context": "x", "question": "Who?"},
            "a.jsonl, line 1: no field 'answers'; it has context",
        ),
        ("a.jsonl", {"context": "x", "question": 3, "answers": []}, "line 1: 'question' is 3; write"),
        (
            "a.jsonl",
            {"context": "x", "question": "Who?", "answers": 3},
            "line 1: expected a JSON object, got 3",
        ),
        ("a.txt", "Some text\n", "a.txt, line 1: not a numbered line of bAbI; name a .json file"),
        (
            "a.txt",
            "1 A.\n2 Who?\tA\t7\n",
            "a.txt, line 2: supporting fact 7 is not a statement of this story",
        ),
    ],
)
def test_broken_files_get_one_clear_line(name: str, content, message: str, tmp_path: Path):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as error:
        list(read_questions(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)

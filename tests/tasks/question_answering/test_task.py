"""Training, resuming, answering and explaining, with spans and with known answers."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from safetensors.torch import load_file

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.data.sources.questions import Question, read_questions
from clearhead.errors import DataError, ModelError, SettingsError, TextError
from clearhead.explorer.app import make_app
from clearhead.explorer.library import Library
from clearhead.inspection.trace import capture
from clearhead.tasks.events import Note
from clearhead.tasks.question_answering import evaluate
from clearhead.tasks.question_answering.data import Questions, split
from clearhead.tasks.question_answering.evaluate import Scores, fact_attention
from clearhead.tasks.question_answering.model import QuestionAnsweringModel
from clearhead.tasks.question_answering.recipe import QuestionHoldOut, QuestionsConfig
from clearhead.tasks.question_answering.sizing import fit_questions
from clearhead.tasks.run import resume, train

from ..conftest import finish, interrupted_at
from .conftest import ROOMS, SMALL, recipe

CONTEXT = "Zoe is in the garden. Kim is in the cellar."


def test_a_small_model_learns_to_answer(trained: Path):
    found = clearhead.load(trained).evaluate(trained)
    # By chance, one of four known answers is right; of spans, far fewer.
    assert found.record["exact_match"] > (0.8 if trained.name == "span" else 0.4)
    assert found.record["f1"] >= found.record["exact_match"]


@pytest.mark.parametrize("kind", ["span", "classifier"])
def test_a_resumed_run_ends_with_the_same_bits(kind: str, files: Path, tmp_path: Path):
    training = {"steps": 12, "validate_every": 5, "save_every": 5, "device": "cpu", "precision": "fp32"}
    short = recipe(
        files,
        kind,
        training=training,
        model={"head": {"kind": kind}, **SMALL, "max_length": 32, "dropout": 0.1},
    )
    finish(train(short, tmp_path / "whole"))
    assert interrupted_at({7}, train(short, tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_fused_and_explicit_attention_give_the_same_logits(trained: Path):
    model = clearhead.load(trained)
    explanation = model.explain("Where is Kim?", context=CONTEXT)
    assert explanation.difference < 1e-4
    assert explanation.output == model.answer("Where is Kim?", CONTEXT).text
    assert [token.piece for token in explanation.target if token.special] == ["<s>", "</s>", "</s>"]


def test_the_question_may_be_the_last_line_or_sentence_of_an_explained_text(finder: QuestionAnsweringModel):
    chosen = finder.explain("Who is in the cellar?", context=CONTEXT)
    for text in (f"{CONTEXT}\nWho is in the cellar?", f"{CONTEXT} Who is in the cellar?"):
        assert [t.id for t in finder.explain(text).target] == [t.id for t in chosen.target]
    with pytest.raises(TextError, match="text: has no context; write it before the question"):
        finder.explain("Who is in the cellar?")


def test_an_answer_has_its_position_in_the_text(finder: QuestionAnsweringModel):
    found = finder.answer(["Who is in the cellar?", "Who is in the garden?"], CONTEXT)
    assert [one.text for one in found] == ["Kim", "Zoe"]
    assert [CONTEXT[one.start : one.end] for one in found] == ["Kim", "Zoe"]
    assert all(0 < one.score <= 1 for one in found)
    assert finder.answer("Who is in the cellar?", CONTEXT) == found[0]


def test_windows_equal_one_window_where_the_text_fits(finder: QuestionAnsweringModel):
    wide = clearhead.load(finder.name)
    [one] = wide.answer_all([Question(CONTEXT, "Who is in the cellar?", ())])
    wide.encoder.stride = 1
    assert wide.answer_all([Question(CONTEXT, "Who is in the cellar?", ())]) == [one]


def test_the_best_span_over_windows_is_that_of_single_passes(finder: QuestionAnsweringModel):
    question = Question("Ada is in the hallway. " * 8 + CONTEXT, "Who is in the cellar?", ())
    rows = finder.encoder.rows([question])
    [text] = finder.encoder.texts([question.context])
    assert len(rows.questions) > 3
    best: dict[tuple[int, int], float] = {}
    for row, length in enumerate(rows.tokens.lengths.tolist()):
        ids, types = (torch.from_numpy(of[row].astype("int64"))[None] for of in (rows.tokens, rows.types))
        with torch.no_grad():
            logits = finder.model(ids, torch.tensor([length]), types)[0]
        for start in range(*rows.owned[row].tolist()):
            for end in range(start, min(start + 5, int(rows.contexts[row]) + 1)):
                first = int(rows.first[row]) - 1
                best[start + first, end + first] = float(logits[start, 0] + logits[end, 1])
    span = max(best, key=lambda span: best[span])
    found = finder.answer_all([question])[0]
    assert (found.start, found.end) == text.characters(*span)
    total = torch.tensor([*best.values()]).logsumexp(0)
    assert found.score == pytest.approx(float((best[span] - total).exp()), rel=1e-3)
    shown = finder.explain(question.question, context=question.context)
    assert shown.difference < 1e-3


def test_a_batch_gives_the_answers_of_single_questions(finder: QuestionAnsweringModel, files: Path):
    questions = list(read_questions(files / "test.jsonl"))[:12]
    batched = finder.answer_all(questions)
    for question, found in zip(questions, batched, strict=True):
        alone = finder.answer(question.question, question.context)
        assert (alone.text, alone.start) == (found.text, found.start)
        assert alone.score == pytest.approx(found.score, abs=1e-5)


def test_no_answer_is_given_where_its_score_exceeds_the_threshold(finder: QuestionAnsweringModel):
    found = finder.answer("Who is in the cellar?", CONTEXT)
    assert found.margin is not None
    assert finder.answer("Who is in the cellar?", CONTEXT, threshold=found.margin + 0.01).text == "Kim"
    none = finder.answer("Who is in the cellar?", CONTEXT, threshold=found.margin - 0.01)
    assert (none.text, none.start) == ("", None)


def test_questions_without_an_answer_are_learned(files: Path, tmp_path: Path):
    lines = []
    for line in (files / "train.jsonl").read_text().splitlines():
        record = json.loads(line)
        missing = next(p for p in ROOMS if p not in record["context"])
        record["questions"].append({"question": f"Who is in the {missing}?", "answers": []})
        lines.append(json.dumps(record))
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    settings = recipe(files, "span", answers={"threshold": 0.0, "max_tokens": 5})
    settings = settings.model_copy(update={"data": QuestionsConfig(train=(str(tmp_path / "train.jsonl"),))})
    events = list(train(settings, tmp_path / "run"))
    assert any("of them without an answer" in one.text for one in events if isinstance(one, Note))
    found = clearhead.load(tmp_path / "run").evaluate(tmp_path / "run")
    assert found.record["no_answer_accuracy"] > 0.75
    assert found.record["best_f1"] >= found.record["f1"]
    model, best = clearhead.load(tmp_path / "run"), found.record["best_threshold"]
    questions = list(read_questions(tmp_path / "run" / "validation.jsonl"))
    answers = [one.text for one in model.answer_all(questions, threshold=best)]
    assert Scores.of(questions, answers).f1 == pytest.approx(found.record["best_f1"])


def test_blank_contexts_and_questions_get_one_clear_line(finder: QuestionAnsweringModel):
    with pytest.raises(TextError, match="context: is empty; pass the text that holds the answer"):
        finder.answer("Who?", " \n")
    with pytest.raises(TextError, match="question 2: is blank; pass a question"):
        finder.answer(["Who?", " "], CONTEXT)


def test_unusable_questions_are_left_out_and_counted(tmp_path: Path):
    records = [
        {"context": CONTEXT, "question": "Who is in the cellar?", "answers": ["Kim"]},
        {"context": CONTEXT, "question": "Who is in the attic?", "answers": ["Tom"]},
        {"context": " ", "question": "Who?", "answers": ["Kim"]},
        {"context": CONTEXT, "question": " ", "answers": ["Kim"]},
    ]
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    config = QuestionsConfig(train=(str(path),), hold_out={"share": 0.0})  # pyright: ignore[reportArgumentType]
    found = Questions.read(config, "span", seed=1)
    assert len(found.train) == 1
    assert dict(found.left_out) == {
        "whose answer is not in its context": 1,
        "about an empty context": 1,
        "without words": 1,
    }
    path.write_text(json.dumps(records[1]))
    with pytest.raises(
        DataError, match=r"no question to use \(1 whose answer is not in its context\); fix the file"
    ):
        Questions.read(config, "span", seed=1)


def test_an_imported_model_is_measured_on_a_file(tmp_path: Path):
    (tmp_path / "config.toml").write_text('kind = "question_answering"\n')
    path = tmp_path / "x.jsonl"
    path.write_text('{"context": "Anna wrote it.", "question": "Who?", "answers": ["Anna"]}\n')
    [question] = evaluate.test_questions(str(path), tmp_path)[str(path)]
    assert question.answers == ("Anna",)


def test_whole_stories_are_held_out(files: Path):
    config = QuestionsConfig(train=(str(files / "train.jsonl"),))
    found = Questions.read(config, "span", seed=1)
    assert 0 < len(found.validation) <= 0.05 * (len(found.train) + len(found.validation))
    assert not {one.context for one in found.train} & {one.context for one in found.validation}


@pytest.mark.parametrize(("texts", "held"), [(10, 3), (2, 0)])
def test_of_few_questions_the_smallest_text_is_held_out_unless_it_is_a_large_part(texts: int, held: int):
    questions = [
        Question(f"Kim is in room {text}.", f"{who}?", ("Kim",), group="one")
        for text in range(texts)
        for who in ("Who", "Who is it", "Who is in the room")
    ]
    train, validation = split(questions, QuestionHoldOut(), seed=1)
    assert (len(train), len(validation)) == (3 * texts - held, held)
    assert len({one.context for one in validation}) <= 1
    assert split(questions, QuestionHoldOut(share=0), seed=1)[1] == []


def test_a_recipe_is_sized_to_the_answers(files: Path):
    spans = fit_questions([str(files / "train.jsonl")])
    assert spans.recipe.model.head.kind == "span"
    known = fit_questions([str(files / "train.txt")])
    assert known.recipe.model.head.kind == "classifier"
    assert "one of 4 known answers" in known.choices()[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": {"kind": "encoder", "head": {"kind": "masked_tokens"}}},
            "answers need span or classifier",
        ),
        ({"batches": {"kind": "packed"}}, "every question needs a row"),
        ({"data": {"train": []}}, "is empty; name a file"),
    ],
)
def test_wrong_settings_are_reported_by_name(changes, message: str, files: Path):
    with pytest.raises((SettingsError, ValueError), match=message):
        recipe(files, "span", **changes)


def test_attention_to_facts_is_that_of_a_captured_pass(runs: Path):
    model = clearhead.load(runs / "classifier")
    question = Question(
        "Ada went to the garden.\nBob went to the cellar.\nAda went to the office.",
        "Where is Ada?",
        ("office",),
        facts=(2,),
    )
    found = fact_attention(model, [question])
    rows = model.encoder.rows([question])
    ids = torch.from_numpy(rows.tokens[0].astype("int64"))[None]
    types = torch.from_numpy(rows.types[0].astype("int64"))[None]
    with capture(model.model, ["*.weights"]) as trace:
        model.model(ids, torch.tensor([ids.shape[1]]), types)
    tokens = int(rows.contexts[0])
    per_line = tokens // 3
    for layer in range(2):
        weights = trace[f"encoder.blocks.{layer}.attention.weights"][0][:, -1, 1 : tokens + 1]
        facts = weights.unflatten(-1, (3, per_line)).sum(-1)
        assert found["last token"].top[layer].tolist() == (facts.argmax(-1) == 2).double().tolist()
        assert found["last token"].mass[layer] == pytest.approx(
            (facts[:, 2] / facts.sum(-1)).numpy(), abs=1e-5
        )
    assert found["last token"].chance == pytest.approx(1 / 3)
    shown = model.evaluate(runs / "classifier")
    assert any(line.startswith("best head from the last token: layer") for line in shown.lines)


def test_a_model_of_another_head_answers_no_questions(
    files: Path, tmp_path: Path, finder: QuestionAnsweringModel
):
    folder = tmp_path / "broken"
    shutil.copytree(finder.name, folder)
    config = (folder / "config.toml").read_text().replace('kind = "span"', 'kind = "classifier"')
    (folder / "config.toml").write_text(config)
    with pytest.raises(ModelError):
        clearhead.load(folder)


def test_the_explorer_shows_an_answer(finder: QuestionAnsweringModel):
    with TestClient(make_app(Library([("finder", finder)])), base_url="http://127.0.0.1") as client:
        made = client.post("/api/trace", json={"text": f"{CONTEXT}\nWho is in the cellar?"})
        assert made.status_code == 200, made.text
        trace = client.get(f"/api/trace/{made.json()['id']}").json()
        missing = client.post("/api/trace", json={"text": "Who?"})
    assert "Kim" in json.dumps(trace)
    assert missing.status_code == 400
    assert "text: has no context" in missing.text

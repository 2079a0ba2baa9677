"""Language models are trained by the same story as translators, and lose as little when it is disturbed."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.checkpoint import WEIGHTS
from clearhead.config import apply_overrides
from clearhead.data.batching.crops import PackedTexts, TextBatchingConfig
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.sources.documents import read_documents
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError, SettingsError, TextError
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.events import Note, Started, Validation
from clearhead.tasks.language.data import Instructions
from clearhead.tasks.language.evaluate import foresee
from clearhead.tasks.language.recipe import LanguageRecipe, TextConfig
from clearhead.tasks.language.task import LanguageLoss
from clearhead.tasks.load import load_for
from clearhead.tasks.recipe import Recipe
from clearhead.tasks.recipes import parse_recipe
from clearhead.tasks.run import resume, train

from ..conftest import finish, interrupted_at

MODEL = {
    "preset": "shakespeare-small",
    "width": 16,
    "ffn_width": 32,
    "layers": 2,
    "attention": {"heads": 2},
    "context_length": 16,
    "dropout": 0.1,
}
TRAINING = {
    "device": "cpu",
    "steps": 16,
    "report_every": 5,
    "validate_every": 8,
    "save_every": 5,
    "schedule": {"kind": "warmup-stable-decay", "learning_rate": 1e-2, "warmup": 5, "decay": 0.5},
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """A folder with a text, a file of documents, and one of prompts with answers."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{number} and one is {number + 1}.\n" for number in range(200)]
    (folder / "text.txt").write_text("".join(lines))
    (folder / "many.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    pairs = [{"prompt": str(number), "answer": str(number + 1)} for number in range(200)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return folder


def recipe(data: dict, *changes: str) -> Recipe:
    values = {
        "kind": "language",
        "data": data,
        "tokenizer": {"kind": "character", "vocabulary": 60},
        "model": MODEL,
        "batches": {"tokens": 128},
        "training": TRAINING,
    }
    return parse_recipe(apply_overrides(values, changes))


VARIANTS = {
    "crops of a text": ({"train": ["text.txt"]}, []),
    "packed documents": (
        {"train": ["many.jsonl"]},
        ["training.accumulate=2", 'tokenizer={kind = "bytes", vocabulary = 300}'],
    ),
    "prompts and answers": ({"train": ["pairs.jsonl"], "template": "{prompt} + 1 = {answer}\n"}, []),
    "nothing held out": ({"train": ["text.txt"], "hold_out": {"share": 0.0}}, []),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_interrupted_again_and_again_equals_undisturbed(variant, tmp_path, texts):
    data, changes = VARIANTS[variant]
    chosen = recipe(data | {"train": [str(texts / name) for name in data["train"]]}, *changes)
    assert not finish(train(chosen, tmp_path / "whole")).interrupted
    assert interrupted_at({3}, train(chosen, tmp_path / "parts")).interrupted
    assert interrupted_at({10}, resume(tmp_path / "parts")).interrupted
    assert not finish(resume(tmp_path / "parts")).interrupted
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_trained_model_knows_its_text_and_continues_it(tmp_path, texts):
    more = ["training.steps=150", "training.validate_every=150", "model.dropout=0.0", "model.width=32"]
    chosen = recipe({"train": [str(texts / "text.txt")]}, *more)
    *_, validation = (one for one in train(chosen, tmp_path / "run") if isinstance(one, Validation))
    assert validation.loss < 1.3
    assert validation.scores["bits_per_byte"] == pytest.approx(validation.loss / 0.6931472)
    told = load_for("language", tmp_path / "run").generate("and one", tokens=4, temperature=0)
    assert told.text == " is "
    assert "bits per byte" in (tmp_path / "run" / "README.md").read_text()


def test_what_is_held_out_is_kept_beside_the_model_and_not_trained_on(tmp_path, texts):
    events = list(train(recipe({"train": [str(texts / "many.jsonl")]}), tmp_path / "run"))
    kept = [json.loads(line)["text"] for line in (tmp_path / "run/validation.jsonl").read_text().splitlines()]
    lines = [piece.text for piece in read_documents([texts / "many.jsonl"])]
    assert 10 < len(kept) < 40
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any(f"in {len(lines) - len(kept)} documents" in note for note in notes)


def test_packed_documents_have_the_loss_of_each_alone():
    torch.manual_seed(0)
    texts = [torch.randint(4, 50, (length,)).tolist() for length in (3, 9, 1, 14, 6)]
    model = GPT(GPTConfig.model_validate({**MODEL, "dropout": 0.0, "init": "gpt2"}), 50).double().eval()
    config, loss = TextBatchingConfig(tokens=64, row_length=16), LanguageLoss()
    [batches_per_step] = PackedTexts(DelimitedDocuments(TextStore.of(texts), (2, 3)), config, seed=0).sequential()
    alone = [PackedTexts(DelimitedDocuments(TextStore.of([text]), (2, 3)), config, seed=0) for text in texts]
    apart = sum(loss(model, batch) for batches in alone for batch in batches.sequential())
    torch.testing.assert_close(loss(model, batches_per_step), apart)


def test_prompts_are_read_but_only_answers_are_learned(texts):
    model = GPT(GPTConfig.model_validate({**MODEL, "dropout": 0.0, "init": "gpt2"}), 50).double()
    store = PairStore.of([[10, 11, 12]], [[13, 14]])
    [batch] = PackedTexts(
        DelimitedDocuments(store, (2, 3)), TextBatchingConfig(tokens=16, row_length=16), seed=0
    ).sequential()
    logits = model(torch.tensor([[2, 10, 11, 12, 13, 14]])).log_softmax(-1)[0]
    wanted = -(logits[3, 13] + logits[4, 14] + logits[5, 3])
    torch.testing.assert_close(LanguageLoss()(model, batch), wanted)


def test_answers_are_measured_as_the_run_measured_them(tmp_path, texts):
    data = {"train": [str(texts / "pairs.jsonl")], "template": "{prompt}+{answer}"}
    *_, validation = (one for one in train(recipe(data), tmp_path / "run") if isinstance(one, Validation))
    found = foresee(load_for("language", tmp_path / "run"), [str(tmp_path / "run" / "validation.jsonl")])
    kept = (tmp_path / "run" / "validation.jsonl").read_text().splitlines()
    assert found.documents == len(kept) == 20
    assert found.measured.bytes == sum(len(json.loads(line)["answer"]) for line in kept)
    # The run asks for the sign after each answer too.
    assert found.measured.tokens == found.measured.bytes
    assert abs(found.measured.loss - validation.loss) < 1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_prompt_that_occurs_often_neither_fills_validation_nor_empties_training(tmp_path, texts, seed):
    lines = (texts / "pairs.jsonl").read_text().splitlines()[:50]
    (tmp_path / "often.jsonl").write_text("\n".join([*lines, *[lines[0]] * 500]))
    data = TextConfig(train=(str(tmp_path / "often.jsonl"),), template="{prompt}+{answer}")
    corpus = Instructions(data, seed)
    train, validation = list(corpus.pairs("train")), list(corpus.pairs("validation"))
    assert (len(train), len(validation), len({*train} | {*validation})) == (545, 5, 50)


def test_text_is_measured_as_text_whatever_its_file_is_called(tmp_path, texts):
    finish(train(recipe({"train": [str(texts / "text.txt")]}), tmp_path / "run"))
    language, (named, other) = (
        load_for("language", tmp_path / "run"),
        (tmp_path / "validation.jsonl", tmp_path / "o.txt"),
    )
    named.write_text('{"answer": "1 and one", "text": "2 is one"}\n')
    other.write_text("1 and 2")
    assert foresee(language, [str(named)]).measured.bytes == len("2 is one")
    named.write_text('{"prompt": "1 and", "answer": "2"}\n')
    assert foresee(language, [str(named)], field="prompt").measured.bytes == 5
    assert foresee(language, [str(named), str(other)], field="prompt").documents == 2
    named.write_text('{"question": "1", "answer": "2"}\n')
    with pytest.raises(DataError, match="the field that holds the text is unclear; it has question, answer"):
        foresee(language, [str(named)])
    named.write_text("{")
    with pytest.raises(DataError, match="line 1: not valid JSON"):
        foresee(language, [str(named)])


def test_answers_to_other_prompts_are_measured_as_those_that_were_kept(tmp_path, texts):
    data = {"train": [str(texts / "pairs.jsonl")], "template": "{prompt} + 1 = {answer}!"}
    finish(train(recipe(data), tmp_path / "run"))
    kept = tmp_path / "run" / "validation.jsonl"
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    bare = [
        {"prompt": one["prompt"].removesuffix(" + 1 = "), "answer": one["answer"].removesuffix("!")}
        for one in records
    ]
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bare))
    language = load_for("language", tmp_path / "run")
    assert foresee(language, [str(tmp_path / "validation.jsonl")]) == foresee(language, [str(kept)])
    numbered = [{"id": number, **one} for number, one in enumerate(bare)]
    (tmp_path / "numbered.jsonl").write_text("".join(json.dumps(one) + "\n" for one in numbered))
    assert foresee(language, [str(tmp_path / "numbered.jsonl")]) == foresee(language, [str(kept)])


def test_answers_are_measured_under_the_names_that_they_had_in_training(tmp_path, texts):
    records = [json.loads(line) for line in (texts / "pairs.jsonl").read_text().splitlines()]
    named = [{"q": one["prompt"], "a": one["answer"], "id": 1} for one in records]
    (tmp_path / "named.jsonl").write_text("".join(json.dumps(one) + "\n" for one in named))
    data = {"train": [str(tmp_path / "named.jsonl")], "template": "{prompt}+{answer}"}
    with pytest.raises(DataError, match="line 1: no field 'prompt'; it has q, a, id"):
        finish(train(recipe(data), tmp_path / "refused"))
    finish(train(recipe(data | {"columns": ["q", "a"]}), tmp_path / "run"))
    found = foresee(load_for("language", tmp_path / "run"), [str(tmp_path / "named.jsonl")])
    assert found.measured.bytes == sum(len(one["a"]) for one in named)


def test_a_template_holds_the_prompt_and_then_the_answer(texts):
    config = TextConfig(train=(str(texts / "pairs.jsonl"),), template="Q: {prompt} {{x}}\nA: {answer}!")
    assert next(Instructions(config, seed=1).pairs("train")).source.startswith("Q: ")
    assert Instructions(config, seed=1).example() == "Q: 0 {x}↵A:  | 1!"
    ffn_width = ("{prompt} {answer!r}", "{prompt} {answer:>9}", "{{answer}} {prompt} {answer}")
    for wrong in (
        "{answer} {prompt}",
        "{prompt}",
        "{prompt {answer}",
        "{prompt} {answer} {answer}",
        *ffn_width,
    ):
        with pytest.raises(SettingsError, match="template"):
            recipe({"train": ["x.jsonl"], "template": wrong})
    with pytest.raises(SettingsError, match="once; double the braces of the text"):
        recipe({"train": ["x.jsonl"], "template": '{"q": "{prompt}", "a": "{answer}"}'})


def test_a_run_reads_its_files_once_to_know_them_again(tmp_path, texts, monkeypatch):
    position, read = str(texts / "many.jsonl"), []
    monkeypatch.setattr("clearhead.tasks.language.data.texts_hash", lambda file: read.append(file) or "one")
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    finish(train(recipe({"train": [position]}), tmp_path / "run"))
    assert read == [position]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_run_reads_of_its_files_can_be_followed(variant, tmp_path, texts, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    data, changes = VARIANTS[variant]
    position, heard, marks = texts / data["train"][0], [], {}
    asked = recipe({**data, "train": [str(position)]}, *changes)
    for event in train(asked, tmp_path / "run", lambda *one: heard.append(one)):
        if isinstance(event, Started):
            break
        if isinstance(event, Note):
            marks[event.text.partition(":")[0]] = len(heard)
    # Once to choose what is held out, and once to tokenise.
    chosen, tokenised = marks["tokenizer"], marks["reading and tokenising the text …"]
    assert 1 < chosen == tokenised < len(heard) - 1
    size = position.stat().st_size
    assert heard[chosen - 1] == heard[-1] == (size, size)
    assert {total for _, total in heard} == {size}


def test_another_model_is_where_a_run_begins(tmp_path, texts):
    data = {"train": [str(texts / "text.txt")]}
    finish(train(recipe(data, "training.steps=100", "training.validate_every=50"), tmp_path / "first"))
    on = recipe(data, f'training.init_from="{tmp_path / "first"}"', "training.schedule.learning_rate=1e-6")
    [first, *_] = (one for one in train(on, tmp_path / "second") if isinstance(one, Validation))
    assert first.loss < 2.0


def test_prompts_with_answers_go_on_from_a_model_of_text_by_the_recipe_of_the_readme(tmp_path, texts):
    finish(train(recipe({"train": [str(texts / "text.txt")]}), tmp_path / "first"))
    tuned = {
        "kind": "language",
        "data": {"train": [str(texts / "pairs.jsonl")], "template": "{prompt}\n{answer}"},
        "training": {**TRAINING, "init_from": str(tmp_path / "first")},
    }
    finish(train(parse_recipe(tuned), tmp_path / "tuned"))
    assert (
        load_for("language", tmp_path / "tuned").model.config
        == load_for("language", tmp_path / "first").model.config
    )


def test_what_a_tokenizer_that_is_taken_over_does_not_know_is_said_and_a_frame_of_it_used(tmp_path, texts):
    finish(train(recipe({"train": [str(texts / "text.txt")]}), tmp_path / "first"))
    tuned = {
        "kind": "language",
        "data": {"train": [str(texts / "pairs.jsonl")], "template": "«{prompt}»{answer}"},
        "training": {**TRAINING, "init_from": str(tmp_path / "first")},
    }
    events = list(train(parse_recipe(tuned), tmp_path / "tuned"))
    (told,) = [one.text for one in events if isinstance(one, Note) and "answers to train on" in one.text]
    trained = 200 - len((tmp_path / "tuned" / "validation.jsonl").read_text().splitlines())
    assert told.endswith(f"; {2 * trained} characters are not in the vocabulary of {tmp_path}/first")
    language = load_for("language", tmp_path / "tuned")
    assert language.generate("7", tokens=3).answers
    with pytest.raises(TextError, match="prompt 1: character 2, '«'"):
        language.generate("7«", tokens=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('tokenizer.kind="bpe"', "tokenizer.kind bpe does not keep blanks as they are"),
        ("tokenizer.normalize=true", "tokenizer: normalize and dropout change what a language model reads"),
        ("batches.row_length=17", "batches.row_length 17 is more than model.context_length 16"),
        ('training.monitor="bleu"', "training: monitor is 'bleu', which is for translators"),
        (
            'training.regulariser={kind = "rdrop"}',
            "training: regulariser and distillation are for translators",
        ),
        ("data.train=[]", "data.train: names no file"),
        ('kind="poetry"', "kind: 'poetry' is not one of translation, language"),
    ],
)
def test_what_does_not_go_together_is_said(change, said):
    with pytest.raises(SettingsError, match=said):
        recipe({"train": ["x.txt"]}, change)


def test_what_the_machine_chooses_is_settled_when_a_run_begins(texts):
    def kind(name: str) -> tuple:
        settled = recipe({"train": [str(texts / name)]}).resolved(on_gpu=False)
        assert isinstance(settled, LanguageRecipe)
        return settled.batches.kind, settled.batches.row_length, settled.training.compile

    assert kind("text.txt") == ("crops", 16, "off")
    assert kind("many.jsonl") == ("packed", 16, "off")


def test_too_little_text_is_said(tmp_path):
    (tmp_path / "short.txt").write_text("Short.")
    (tmp_path / "one.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    with pytest.raises(DataError, match=r"short\.txt: 6 characters of text; a language model needs at least"):
        finish(train(recipe({"train": [str(tmp_path / "short.txt")]}), tmp_path / "run"))
    data = {"train": [str(tmp_path / "one.jsonl")], "template": "{prompt}{answer}"}
    with pytest.raises(DataError, match="1 different prompts with answers are too few"):
        finish(train(recipe(data), tmp_path / "other"))

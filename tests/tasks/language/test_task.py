"""Language models are trained, resumed and evaluated like translators."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.assets import recipe_path
from clearhead.checkpoint import WEIGHTS
from clearhead.config import apply_overrides, read_toml
from clearhead.data.batching.crops import PackedTexts, TextBatchingConfig
from clearhead.data.delimited import DelimitedDocuments
from clearhead.data.sources.corpus import read_pairs
from clearhead.data.sources.documents import read_documents
from clearhead.data.store import PairStore, TextStore
from clearhead.errors import DataError, SettingsError, TextError
from clearhead.models import GPT, GPTConfig
from clearhead.tasks.events import Note, Started, Validation
from clearhead.tasks.language.data import Instructions, TextCorpus
from clearhead.tasks.language.evaluate import text_perplexity
from clearhead.tasks.language.recipe import LanguageRecipe, TextConfig
from clearhead.tasks.language.task import language_loss
from clearhead.tasks.load import load_for
from clearhead.tasks.recipe import Recipe, parse_recipe
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
def test_a_run_interrupted_twice_equals_an_uninterrupted_one(variant, tmp_path, texts):
    data, changes = VARIANTS[variant]
    chosen = recipe(data | {"train": [str(texts / name) for name in data["train"]]}, *changes)
    assert not finish(train(chosen, tmp_path / "whole")).interrupted
    assert interrupted_at({3}, train(chosen, tmp_path / "parts")).interrupted
    assert interrupted_at({10}, resume(tmp_path / "parts")).interrupted
    assert not finish(resume(tmp_path / "parts")).interrupted
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_trained_model_continues_its_text(tmp_path, texts):
    more = ["training.steps=150", "training.validate_every=150", "model.dropout=0.0", "model.width=32"]
    chosen = recipe({"train": [str(texts / "text.txt")]}, *more)
    *_, validation = (one for one in train(chosen, tmp_path / "run") if isinstance(one, Validation))
    assert validation.loss < 1.3
    assert validation.scores["bits_per_byte"] == pytest.approx(validation.loss / 0.6931472)
    found = load_for("language", tmp_path / "run").generate("and one", tokens=4, temperature=0)
    assert found.text == " is "
    assert "bits per byte" in (tmp_path / "run" / "README.md").read_text()


def test_held_out_text_is_written_to_the_folder_and_not_trained_on(tmp_path, texts):
    events = list(train(recipe({"train": [str(texts / "many.jsonl")]}), tmp_path / "run"))
    held_out = [
        json.loads(line)["text"] for line in (tmp_path / "run/validation.jsonl").read_text().splitlines()
    ]
    lines = [piece.text for piece in read_documents([texts / "many.jsonl"])]
    assert 10 < len(held_out) < 40
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any(f"in {len(lines) - len(held_out)} documents" in note for note in notes)


def test_the_loss_of_packed_documents_equals_that_of_each_alone():
    torch.manual_seed(0)
    texts = [torch.randint(4, 50, (length,)).tolist() for length in (3, 9, 1, 14, 6)]
    model = GPT(GPTConfig.model_validate({**MODEL, "dropout": 0.0, "init": "gpt2"}), 50).double().eval()
    config = TextBatchingConfig(tokens=64, row_length=16)
    [packed] = PackedTexts(DelimitedDocuments(TextStore.of(texts), (2, 3)), config, seed=0).sequential()
    alone = [PackedTexts(DelimitedDocuments(TextStore.of([text]), (2, 3)), config, seed=0) for text in texts]
    apart = sum(language_loss(model, batch) for batches in alone for batch in batches.sequential())
    torch.testing.assert_close(language_loss(model, packed), apart)


def test_the_loss_covers_only_the_answers():
    model = GPT(GPTConfig.model_validate({**MODEL, "dropout": 0.0, "init": "gpt2"}), 50).double()
    store = PairStore.of([[10, 11, 12]], [[13, 14]])
    [batch] = PackedTexts(
        DelimitedDocuments(store, (2, 3)), TextBatchingConfig(tokens=16, row_length=16), seed=0
    ).sequential()
    logits = model(torch.tensor([[2, 10, 11, 12, 13, 14]])).log_softmax(-1)[0]
    expected = -(logits[3, 13] + logits[4, 14] + logits[5, 3])
    torch.testing.assert_close(language_loss(model, batch), expected)


def test_the_perplexity_of_held_out_answers_is_close_to_the_validation_loss(tmp_path, texts):
    data = {"train": [str(texts / "pairs.jsonl")], "template": "{prompt}+{answer}"}
    *_, validation = (one for one in train(recipe(data), tmp_path / "run") if isinstance(one, Validation))
    found = text_perplexity(
        load_for("language", tmp_path / "run"), [str(tmp_path / "run" / "validation.jsonl")]
    )
    lines = (tmp_path / "run" / "validation.jsonl").read_text().splitlines()
    assert found.documents == len(lines) == 20
    assert found.measured.bytes == sum(len(json.loads(line)["answer"]) for line in lines)
    # The validation loss includes the end token after each answer.
    assert found.measured.tokens == found.measured.bytes
    assert abs(found.measured.loss - validation.loss) < 1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_frequent_pair_neither_fills_validation_nor_empties_training(tmp_path, texts, seed):
    lines = (texts / "pairs.jsonl").read_text().splitlines()[:50]
    (tmp_path / "often.jsonl").write_text("\n".join([*lines, *[lines[0]] * 500]))
    data = TextConfig(train=(str(tmp_path / "often.jsonl"),), template="{prompt}+{answer}")
    corpus = Instructions(data, seed)
    train, validation = list(corpus.pairs("train")), list(corpus.pairs("validation"))
    assert (len(train), len(validation), len({*train} | {*validation})) == (545, 5, 50)


def test_evaluation_reads_text_whatever_the_file_is_called(tmp_path, texts):
    finish(train(recipe({"train": [str(texts / "text.txt")]}), tmp_path / "run"))
    language, (named, other) = (
        load_for("language", tmp_path / "run"),
        (tmp_path / "validation.jsonl", tmp_path / "o.txt"),
    )
    named.write_text('{"answer": "1 and one", "text": "2 is one"}\n')
    other.write_text("1 and 2")
    assert text_perplexity(language, [str(named)]).measured.bytes == len("2 is one")
    named.write_text('{"prompt": "1 and", "answer": "2"}\n')
    assert text_perplexity(language, [str(named)], field="prompt").measured.bytes == 5
    assert text_perplexity(language, [str(named), str(other)], field="prompt").documents == 2
    named.write_text('{"question": "1", "answer": "2"}\n')
    with pytest.raises(DataError, match="the field that holds the text is unclear; it has question, answer"):
        text_perplexity(language, [str(named)])
    named.write_text("{")
    with pytest.raises(DataError, match="line 1: not valid JSON"):
        text_perplexity(language, [str(named)])


def test_other_pairs_are_evaluated_like_the_held_out_ones(tmp_path, texts):
    data = {"train": [str(texts / "pairs.jsonl")], "template": "{prompt} + 1 = {answer}!"}
    finish(train(recipe(data), tmp_path / "run"))
    held_out = tmp_path / "run" / "validation.jsonl"
    records = [json.loads(line) for line in held_out.read_text().splitlines()]
    bare = [
        {"prompt": one["prompt"].removesuffix(" + 1 = "), "answer": one["answer"].removesuffix("!")}
        for one in records
    ]
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bare))
    language = load_for("language", tmp_path / "run")
    assert text_perplexity(language, [str(tmp_path / "validation.jsonl")]) == text_perplexity(
        language, [str(held_out)]
    )
    numbered = [{"id": number, **one} for number, one in enumerate(bare)]
    (tmp_path / "numbered.jsonl").write_text("".join(json.dumps(one) + "\n" for one in numbered))
    assert text_perplexity(language, [str(tmp_path / "numbered.jsonl")]) == text_perplexity(
        language, [str(held_out)]
    )


def test_pairs_are_evaluated_by_the_column_names_of_training(tmp_path, texts):
    records = [json.loads(line) for line in (texts / "pairs.jsonl").read_text().splitlines()]
    named = [{"q": one["prompt"], "a": one["answer"], "id": 1} for one in records]
    (tmp_path / "named.jsonl").write_text("".join(json.dumps(one) + "\n" for one in named))
    data = {"train": [str(tmp_path / "named.jsonl")], "template": "{prompt}+{answer}"}
    with pytest.raises(
        DataError, match=r"prompt and answer is unclear; it has q, a, id; .* --set data.columns="
    ):
        finish(train(recipe(data), tmp_path / "refused"))
    finish(train(recipe(data | {"columns": ["q", "a"]}), tmp_path / "run"))
    found = text_perplexity(load_for("language", tmp_path / "run"), [str(tmp_path / "named.jsonl")])
    assert found.measured.bytes == sum(len(one["a"]) for one in named)


def test_a_template_must_name_the_prompt_and_then_the_answer(texts):
    config = TextConfig(train=(str(texts / "pairs.jsonl"),), template="Q: {prompt} {{x}}\nA: {answer}!")
    assert next(Instructions(config, seed=1).pairs("train")).source.startswith("Q: ")
    assert Instructions(config, seed=1).example() == "Q: 0 {x}↵A:  | 1!"
    hidden = ("{prompt} {answer!r}", "{prompt} {answer:>9}", "{{answer}} {prompt} {answer}")
    for wrong in (
        "{answer} {prompt}",
        "{prompt}",
        "{prompt {answer}",
        "{prompt} {answer} {answer}",
        *hidden,
    ):
        with pytest.raises(SettingsError, match="template"):
            recipe({"train": ["x.jsonl"], "template": wrong})
    with pytest.raises(SettingsError, match="once; double the braces of the text"):
        recipe({"train": ["x.jsonl"], "template": '{"q": "{prompt}", "a": "{answer}"}'})


def test_a_run_hashes_its_files_once(tmp_path, texts, monkeypatch):
    path, hashed = str(texts / "many.jsonl"), []
    monkeypatch.setattr("clearhead.tasks.language.data.texts_hash", lambda file: hashed.append(file) or "one")
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    finish(train(recipe({"train": [path]}), tmp_path / "run"))
    assert hashed == [path]


@pytest.mark.parametrize("variant", VARIANTS)
def test_reading_of_files_reports_progress(variant, tmp_path, texts, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    data, changes = VARIANTS[variant]
    path, reports, marks = texts / data["train"][0], [], {}
    chosen = recipe({**data, "train": [str(path)]}, *changes)
    for event in train(chosen, tmp_path / "run", lambda *one: reports.append(one)):
        if isinstance(event, Started):
            break
        if isinstance(event, Note):
            marks[event.text.partition(":")[0]] = len(reports)
    # Once to split the text, and once to tokenise it.
    split, tokenised = marks["tokenizer"], marks["reading and tokenising the text …"]
    assert 1 < split == tokenised < len(reports) - 1
    size = path.stat().st_size
    assert reports[split - 1] == reports[-1] == (size, size)
    assert {total for _, total in reports} == {size}


def test_a_run_can_start_from_another_language_model(tmp_path, texts):
    data = {"train": [str(texts / "text.txt")]}
    finish(train(recipe(data, "training.steps=100", "training.validate_every=50"), tmp_path / "first"))
    continued = recipe(
        data, f'training.init_from="{tmp_path / "first"}"', "training.schedule.learning_rate=1e-6"
    )
    [first, *_] = (one for one in train(continued, tmp_path / "second") if isinstance(one, Validation))
    assert first.loss < 2.0


def test_a_model_of_text_can_be_tuned_on_prompts_with_answers(tmp_path, texts):
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


def test_characters_outside_an_inherited_vocabulary_are_counted(tmp_path, texts):
    finish(train(recipe({"train": [str(texts / "text.txt")]}), tmp_path / "first"))
    tuned = {
        "kind": "language",
        "data": {"train": [str(texts / "pairs.jsonl")], "template": "«{prompt}»{answer}"},
        "training": {**TRAINING, "init_from": str(tmp_path / "first")},
    }
    events = list(train(parse_recipe(tuned), tmp_path / "tuned"))
    (note,) = [one.text for one in events if isinstance(one, Note) and "answers to train on" in one.text]
    trained = 200 - len((tmp_path / "tuned" / "validation.jsonl").read_text().splitlines())
    assert note.endswith(f"; {2 * trained} characters are not in the vocabulary of {tmp_path}/first")
    language = load_for("language", tmp_path / "tuned")
    assert language.generate("7", tokens=3).answers
    with pytest.raises(TextError, match="prompt 1: character 2, '«'"):
        language.generate("7«", tokens=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('tokenizer.kind="bpe"', "tokenizer.kind bpe does not keep white space"),
        ("tokenizer.normalize=true", "tokenizer: normalize and dropout would change the text"),
        ("batches.row_length=17", "batches.row_length 17 exceeds model.context_length 16"),
        ('training.monitor="bleu"', "training.monitor: 'bleu' is not"),
        ('training.regulariser={kind = "rdrop"}', "training.regulariser: unknown setting"),
        ("data.train=[]", "data.train: is empty; name a file"),
        ('kind="poetry"', "kind: 'poetry' is not one of translation, language"),
    ],
)
def test_contradictory_settings_are_refused(change, message):
    with pytest.raises(SettingsError, match=message):
        recipe({"train": ["x.txt"]}, change)


def test_automatic_choices_are_resolved_when_a_run_starts(texts):
    def kind(name: str) -> tuple:
        resolved = recipe({"train": [str(texts / name)]}).resolved(on_gpu=False)
        assert isinstance(resolved, LanguageRecipe)
        return resolved.batches.kind, resolved.batches.row_length, resolved.training.compile

    assert kind("text.txt") == ("crops", 16, "off")
    assert kind("many.jsonl") == ("packed", 16, "off")


def test_too_little_text_is_refused(tmp_path):
    (tmp_path / "short.txt").write_text("Short.")
    (tmp_path / "one.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    with pytest.raises(DataError, match=r"short\.txt: 6 characters of text; a language model needs at least"):
        finish(train(recipe({"train": [str(tmp_path / "short.txt")]}), tmp_path / "run"))
    data = {"train": [str(tmp_path / "one.jsonl")], "template": "{prompt}{answer}"}
    with pytest.raises(DataError, match="only 1 distinct prompts with answers; add more"):
        finish(train(recipe(data), tmp_path / "other"))


def test_of_shipped_pairs_each_english_sentence_is_a_document_once():
    languages = {"phrases-en-de": ("en", "de"), "phrases-en-fr": ("en", "fr")}
    pairs = [pair for name, both in languages.items() for pair in read_pairs(name, both)]
    data = TextConfig.model_validate({"train": list(languages), "hold_out": {"share": 0.1}})
    corpus = TextCorpus(data, seed=1)
    train, held_out = ([piece.text for piece in corpus.pieces(part)] for part in ("train", "validation"))
    assert sorted(train + held_out) == sorted({pair.source for pair in pairs})
    assert len(train) > len(held_out) > 0
    assert not data.is_few_texts


def test_the_recipe_of_the_built_in_word_level_gpt_trains(tmp_path: Path):
    settings = {"data": {"train": ["phrases-en-de"]}, "training": TRAINING, "batches": {"tokens": 256}}
    changes = ["tokenizer.vocabulary=600", "model.width=16", "model.ffn_width=32", "model.attention.heads=2"]
    written = read_toml(recipe_path("language/sentences"))
    small = parse_recipe(apply_overrides({**written, **settings}, changes))
    finish(train(small, tmp_path / "run"))
    language = load_for("language", tmp_path / "run")
    assert language.prompt_format.start == (language.tokenizer.bos_id,)
    text = "Where  is\tthe 漢?"
    assert language.tokenizer.decode(language.tokenizer.encode(text)) == text

"""N-grams are counted by a recipe, loaded, evaluated, continued and explained like any language model."""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.checkpoint import SETTINGS, WEIGHTS
from clearhead.data.download import get_dataset
from clearhead.errors import ClearheadError, DataError, ModelError, SettingsError, TextError, TrainingError
from clearhead.tasks.events import Event, Note, Validation
from clearhead.tasks.export import export_int8
from clearhead.tasks.ngrams.data import SentenceText
from clearhead.tasks.ngrams.model import NgramModel
from clearhead.tasks.recipe import parse_recipe, read_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import BOS, EOS, UNK

from ..conftest import finish

RECIPES = Path(__file__).parents[3] / "recipes" / "ngrams"
LINES = ["the cat sat on the mat", "the dog sat on the log", "the cat saw the dog", "a dog saw the mat"]
TEXT = "\n".join(LINES * 30) + "\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def recipe(file: Path, changes: Mapping[str, object] | None = None, **model: object):
    values = {
        "kind": "ngrams",
        "data": {"train": [str(file)], **(changes or {})},
        "model": {"kind": "ngram", "order": 3, **model},
    }
    return parse_recipe(values)


@pytest.fixture
def counted(text: Path, tmp_path: Path) -> Path:
    finish(train(recipe(text), tmp_path / "model"))
    return tmp_path / "model"


@pytest.fixture
def model(counted: Path) -> NgramModel:
    return clearhead.load(counted)


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def test_a_run_counts_validates_and_describes_its_model(text: Path, tmp_path: Path):
    events: list[Event] = list(train(recipe(text), tmp_path / "run"))
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any(note.startswith("counted in") and "of order 3" in note for note in notes)
    (validation,) = (event for event in events if isinstance(event, Validation))
    assert validation.scores["perplexity"] == pytest.approx(math.exp(validation.scores["loss"]))
    card = (tmp_path / "run" / "README.md").read_text()
    assert "order 3, smoothing kneser-ney" in card
    assert "clearhead generate" in card
    assert not (tmp_path / "run" / "curves.png").exists()
    with pytest.raises(TrainingError, match="run: is complete; there is nothing to resume"):
        finish(resume(tmp_path / "run"))
    with pytest.raises(ModelError, match="run: has no matrices to quantize"):
        export_int8(tmp_path / "run", tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_evaluation_counts_every_end_of_a_sentence(model: NgramModel, tmp_path: Path):
    test = tmp_path / "test.txt"
    test.write_text("the cat sat\n\n the dog \n")
    found = model.evaluate(tmp_path, text=[str(test)])
    assert (found.record["tokens"], found.record["sentences"], found.notes) == (7, 2, ())
    assert "on 7 tokens in 2 sentences: 5 of text, and 2 </s>" in found.lines[0]
    ids = torch.tensor(
        [BOS, *model.tokenizer.encode("the cat sat"), EOS, BOS, *model.encode("the dog")[1:], EOS]
    )
    likely = model.model.probabilities(ids)[ids != BOS]
    assert found.record["loss"] == pytest.approx(float(-likely.log().mean()))
    assert sum(found.record["matched_orders"]) == pytest.approx(1)


def test_without_files_it_evaluates_the_held_out_text_or_the_recipe_s_test_text(
    counted: Path, text: Path, tmp_path: Path
):
    held_out = clearhead.load(counted).evaluate(counted).record
    assert held_out["tokens"] < len(TEXT.split())
    other = tmp_path / "other.txt"
    other.write_text("the dog sat\n")
    finish(train(recipe(text, {"test": [str(other)]}), tmp_path / "tested"))
    assert clearhead.load(tmp_path / "tested").evaluate(tmp_path / "tested").record["tokens"] == 4
    other.unlink()
    with pytest.raises(DataError, match=r"other.txt: the test text of .* is gone; name a file with --text"):
        clearhead.load(tmp_path / "tested").evaluate(tmp_path / "tested")


def test_prompts_are_continued_sentence_by_sentence(model: NgramModel):
    assert model.generate("the cat sat", tokens=2, temperature=0).text == " on the"
    assert model.generate("a dog saw", tokens=9, temperature=0).ended == "end"
    assert model.encode("the cat\nthe dog").count(BOS) == 2
    assert model.encode("") == [BOS]
    drawn = model.generate(["the cat", "a dog saw the"], tokens=5, samples=8, seed=4)
    assert len({sample.text for sample in drawn[0].samples}) > 1
    assert drawn == model.generate(["the cat", "a dog saw the"], tokens=5, samples=8, seed=4)


def test_a_prompt_of_any_length_is_read_whole(model: NgramModel):
    generation = model.generate("the cat sat on the mat " * 500, tokens=3, overflow="cut")
    assert generation.truncated == 0


def test_unknown_words_back_off_and_are_counted(model: NgramModel, tmp_path: Path):
    assert model.unknown("the zebra sat") == 1
    after_unknown = model.next_logits("the zebra")[0]
    assert torch.equal(after_unknown, model.next_logits("zebra the zebra")[0])
    test = tmp_path / "test.txt"
    test.write_text("the zebra sat\n")
    found = model.evaluate(tmp_path, text=[str(test)])
    assert found.notes == (
        "1 of 3 tokens are not in the model's vocabulary; it reads <unk> and backs off to what it has seen",
    )
    with pytest.raises(
        TextError, match="prompt 1: no word of 'zebra' is in the model's vocabulary; use others"
    ):
        model.generate("zebra")


def test_each_prediction_names_its_n_gram_and_its_chain(model: NgramModel):
    *_, log, end = model.predictions("the dog sat on the log")
    assert (log.token, log.context, log.order) == ("log", ("on", "the"), 3)
    assert (end.token, end.context) == ("</s>", ("the", "log"))
    assert len(log.probabilities) == 3
    assert log.probability == log.probabilities[-1] > log.probabilities[0]
    zebra = model.predictions("the zebra")[1]
    assert (zebra.order, zebra.context) == (0, ())


def test_an_explanation_has_the_orders_and_draws_what_follows(model: NgramModel, tmp_path: Path):
    explanation = model.explain("the dog sat", tokens=2)
    assert explanation.output == " on the"
    assert explanation["orders"].shape == (6, 4)
    assert explanation.difference == 0
    assert [token.log_prob is not None for token in explanation.target] == [True] * 5 + [False]
    assert explanation.save(tmp_path / "x.png").stat().st_size > 1000
    assert "sat: on (" in explanation.picture("transitions").alt
    assert json.loads(explanation.save(tmp_path / "x.json").read_text())


@pytest.mark.parametrize(
    "settings",
    [
        {"cache": {}},
        {"cache": {"half_life": 20.0}},
        {"skips": {"min_information": 0.3}},
        {"smoothing": "none"},
    ],
)
def test_every_variant_runs_from_recipe_to_text(text: Path, tmp_path: Path, settings):
    finish(train(recipe(text, **settings), tmp_path / "model"))
    model = clearhead.load(tmp_path / "model")
    assert model.generate("the cat", tokens=4, temperature=0).text
    assert model.evaluate(tmp_path / "model").record["tokens"]


def test_the_cache_is_tuned_on_validation_text(tmp_path: Path):
    """In a text that changes its subject, a cache helps."""
    subjects = [
        "cat mouse purr milk",
        "ship sail wind port",
        "bread oven flour salt",
        "court lawyer law case",
    ]
    lines = [
        f"the {one} and the {other}" for topic in subjects for one in topic.split() for other in topic.split()
    ]
    files = [tmp_path / name for name in ("train.txt", "valid.txt")]
    for file in files:
        file.write_text("\n".join(lines * 3))
    data = {"validation": [str(files[1])]}
    scores = {}
    for name, settings in (("plain", {}), ("cache", {"cache": {}})):
        made = recipe(files[0], data, **{"order": 2, **settings})
        (found,) = (event for event in train(made, tmp_path / name) if isinstance(event, Validation))
        scores[name] = found.scores["perplexity"]
    _, unigram, bigram = clearhead.load(tmp_path / "cache").model.cache.settings.tolist()
    assert unigram + bigram > 0.05
    assert scores["cache"] < scores["plain"]


def test_without_smoothing_impossible_text_has_no_perplexity(text: Path, tmp_path: Path):
    finish(train(recipe(text, smoothing="none"), tmp_path / "model"))
    model = clearhead.load(tmp_path / "model")
    test = tmp_path / "test.txt"
    test.write_text("mat the\n")
    found = model.evaluate(tmp_path, text=[str(test)])
    assert found.record["perplexity"] is None
    assert "impossible without smoothing, so perplexity is infinite" in found.notes[0]
    assert json.dumps(found.record, allow_nan=False)


def test_characters_count_line_breaks_where_documents_are_sentences(text: Path, tmp_path: Path):
    values = {
        "kind": "ngrams",
        "data": {"train": [str(text)], "sentences": "documents"},
        "tokenizer": {"kind": "character", "vocabulary": 60},
        "model": {"kind": "ngram", "order": 5},
    }
    finish(train(parse_recipe(values), tmp_path / "model"))
    model = clearhead.load(tmp_path / "model")
    assert model.generate("the cat sat on the ma", tokens=2, temperature=0).text == "t\n"
    assert model.evaluate(tmp_path / "model").record["sentences"] == 1


def test_a_text_in_chunks_has_the_same_sentences(model: NgramModel, tmp_path: Path):
    from clearhead.data.sources.plain_text import TextChunk

    whole = SentenceText.read([TextChunk(TEXT, last=True)], "lines", model.tokenizer)
    cuts = [TextChunk(TEXT[:100], last=False), TextChunk(TEXT[100:111], False), TextChunk(TEXT[111:], True)]
    assert (SentenceText.read(cuts, "lines", model.tokenizer).tokens == whole.tokens).all()
    assert (whole.sentences, whole.words) == (120, len(TEXT.split()))


def test_a_run_killed_while_it_counts_is_resumed_to_the_same_bits(text: Path, tmp_path: Path):
    made = tmp_path / "recipe.toml"
    made.write_text(f'kind = "ngrams"\n[data]\ntrain = ["{text}"]\n[model]\nkind = "ngram"\norder = 4\n')
    finish(train(read_recipe(made), tmp_path / "straight"))
    slow = (
        "import sys, time\nfrom clearhead.cli import main\nfrom clearhead.models.ngram import Ngram\n"
        "Ngram.count = lambda self, text: (print('counting', flush=True), time.sleep(60))\n"
        f"sys.argv = ['clearhead', 'train', {str(made)!r}, '--out', {str(tmp_path / 'killed')!r}]\nmain()\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", slow]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "counting\n"
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / "killed" / SETTINGS).exists()
    assert not (tmp_path / "killed" / WEIGHTS).exists()
    finish(resume(tmp_path / "killed"))
    assert digest(tmp_path / "killed") == digest(tmp_path / "straight")


# Bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "text.txt: contains no text; name another file"),
        ("\n \n", "text.txt: contains no text; name another file"),
        ("a b", "text.txt: 3 characters of text; a language model needs at least 100"),
        (
            "word " * 50,
            "text.txt: 1 distinct word in the training text, so nothing can be learned; give more text",
        ),
    ],
)
def test_unusable_texts_are_reported(tmp_path: Path, content: str, message: str):
    file = tmp_path / "text.txt"
    file.write_text(content)
    with pytest.raises(DataError) as error:
        finish(train(recipe(file), tmp_path / "run"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "contains no text; name another file"),
        ("xyz zyx\n", "no word of it is in the model's vocabulary; give text in its language"),
    ],
)
def test_text_that_cannot_be_scored_is_reported(
    model: NgramModel, tmp_path: Path, content: str, message: str
):
    file = tmp_path / "test.txt"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        model.evaluate(tmp_path, text=[str(file)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": {"steps": 5}}, "training.steps: unknown setting"),
        ({"tokenizer": {"kind": "bpe", "dropout": 0.1}}, "tokenizer: dropout would change the text"),
        (
            {"tokenizer": {"kind": "character", "normalize": True}},
            "tokenizer: normalize would change the text",
        ),
        ({"model": {"kind": "ngram", "order": 9}}, "model.order: 9 should be less than or equal to 6"),
    ],
)
def test_settings_without_meaning_are_rejected(text: Path, change, message: str):
    with pytest.raises(SettingsError) as error:
        parse_recipe({"kind": "ngrams", "data": {"train": [str(text)]}, **change})
    assert str(error.value).startswith(message)


def test_a_missing_test_text_is_reported_before_any_work(text: Path, tmp_path: Path):
    with pytest.raises(ClearheadError, match=r"gone.txt: no such file"):
        finish(train(recipe(text, {"test": [str(tmp_path / "gone.txt")]}), tmp_path / "run"))


# Penn Treebank


@pytest.fixture(scope="module")
def treebank(measuring_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEARHEAD_DATA", str(measuring_data))
        get_dataset("ptb", folder / "data" / "ptb")
    return folder


@pytest.mark.parametrize(
    ("name", "perplexity", "tolerance"),
    [("ptb-5gram", 141.2, 0.1), ("ptb-3gram", 148.3, 0.1), ("ptb-cache", 118.1, 0.1)],
)
def test_the_treebank_has_the_published_perplexity(
    treebank: Path, monkeypatch, name: str, perplexity: float, tolerance: float
):
    """Published: 141.2 and 148.3; 125.7 with a cache of single words, where pairs of words give 118.1."""
    monkeypatch.chdir(treebank)
    finish(train(read_recipe(RECIPES / f"{name}.toml"), treebank / name))
    found = clearhead.load(treebank / name).evaluate(treebank / name).record
    assert (found["tokens"], found["sentences"]) == (82430, 3761)
    assert found["perplexity"] == pytest.approx(perplexity, abs=tolerance)
    assert found["unknown"] == (treebank / "data/ptb/ptb.test.txt").read_text().split().count("<unk>")


def test_the_unknown_word_of_the_treebank_is_the_unknown_token(model: NgramModel):
    assert model.tokenizer.encode("the <unk>")[1] == UNK

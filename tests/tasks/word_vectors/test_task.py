"""Training word vectors: from text to a folder, stopped and resumed, and with bad input."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.config import parse_settings
from clearhead.data.datasets import SHIPPED_TEXTS
from clearhead.errors import DataError, SettingsError, TrainingError
from clearhead.tasks.recipe import read_recipe
from clearhead.tasks.run import resume, train
from clearhead.tasks.word_vectors.data import check_sources, read_words
from clearhead.tasks.word_vectors.model import WordVectorsModel
from clearhead.tasks.word_vectors.recipe import WordsConfig, WordVectorsRecipe
from clearhead.training import Report

from ..conftest import finish, interrupted_at, metrics
from .conftest import TOPICS

KILLER = Path(__file__).parents[2] / "stories" / "run_to_be_killed.py"


@pytest.fixture(scope="module")
def trained(topics_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "run"
    finish(train(read_recipe(topics_recipe), folder))
    return folder


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def words_in(tmp_path: Path, text: str, **settings: object) -> WordsConfig:
    (tmp_path / "text.txt").write_text(text)
    return WordsConfig.model_validate({"train": [str(tmp_path / "text.txt")], **settings})


def test_words_that_occur_together_become_neighbours(trained: Path):
    model = clearhead.load(trained)
    assert isinstance(model, WordVectorsModel)
    for words in TOPICS.values():
        for word in words:
            assert {one.word for one in model.neighbours(word, n=4)} == {*words} - {word}


def test_the_folder_holds_metrics_and_a_card(trained: Path):
    lines = metrics(trained)
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert losses[-1] < losses[0]
    # A pair and its five negatives, all with a chance of one half.
    assert losses[0] == pytest.approx(6 * 0.693, abs=0.2)
    assert "gradient" not in lines[0]
    card = (trained / "README.md").read_text()
    assert "10 words of width 16" in card
    assert "topics.txt" in card
    assert "clearhead neighbours" in card


def test_reports_count_the_words_of_the_text(topics_recipe: Path, tmp_path: Path):
    recipe = read_recipe(topics_recipe, ["training.epochs=1"])
    reports = [event for event in train(recipe, tmp_path / "run") if isinstance(event, Report)]
    text = Path(recipe.data.train[0]).read_text()
    assert sum(report.tokens for report in reports) == len(text.split())
    assert reports[-1].step == -(-len(text.split()) // 256)


def test_an_interrupted_run_is_saved_and_resumed_to_the_same_bits(
    topics_recipe: Path, trained: Path, tmp_path: Path
):
    folder = tmp_path / "stopped"
    stopped = interrupted_at({33}, train(read_recipe(topics_recipe), folder))
    assert (stopped.interrupted, stopped.step) == (True, 33)
    assert interrupted_at({190}, resume(folder)).interrupted
    finish(resume(folder))
    assert digest(folder) == digest(trained)
    assert metrics(folder) == metrics(trained)


def test_a_run_killed_at_any_moment_ends_with_the_same_files(topics_recipe: Path, tmp_path: Path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(topics_recipe.read_text().replace("epochs = 20", "epochs = 3"))
    command = [sys.executable, str(KILLER), str(tmp_path), str(recipe), "5"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.splitlines()[-1]) >= 3
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    for name in (WEIGHTS, "vocabulary.json", "config.toml", "README.md"):
        assert (straight / name).read_bytes() == (killed / name).read_bytes(), name
    assert metrics(straight) == metrics(killed)


def test_another_text_is_noticed_on_resume(topics_recipe: Path, tmp_path: Path):
    recipe = read_recipe(topics_recipe)
    text = tmp_path / "text.txt"
    text.write_text(Path(recipe.data.train[0]).read_text())
    changed = read_recipe(topics_recipe, [f"data.train={json.dumps([str(text)])}"])
    interrupted_at({30}, train(changed, tmp_path / "run"))
    text.write_text(text.read_text().replace("cat dog", "dog cat"))
    with pytest.raises(TrainingError, match="data: the files have changed"):
        finish(resume(tmp_path / "run"))


def test_words_are_sorted_by_frequency_and_rare_ones_left_out(tmp_path: Path):
    corpus = read_words(words_in(tmp_path, "b a b\n\nrare B\na b\n", min_count=2))
    assert corpus.vocabulary.words == ["b", "a"]
    assert corpus.vocabulary.counts == [4, 2]
    assert [line.tolist() for line in map(corpus.text.__getitem__, range(len(corpus.text)))] == [
        [0, 1, 0],
        [0],
        [1, 0],
    ]
    assert (corpus.words, corpus.distinct) == (7, 3)


def test_a_long_line_stays_one_line(tmp_path: Path):
    corpus = read_words(words_in(tmp_path, "one two " * 20_000, min_count=1))
    assert (len(corpus.text), len(corpus.text.ids)) == (1, 40_000)


def test_a_column_of_a_table_is_read_beside_plain_text(tmp_path: Path):
    (tmp_path / "table.tsv").write_text("1\tx\tgood film\n0\ty\tbad film\n")
    (tmp_path / "table.csv").write_text('label,text\n1,"good, good"\n')
    (tmp_path / "plain.txt").write_text("film")
    files = [str(tmp_path / name) for name in ("table.tsv", "plain.txt")]
    corpus = read_words(WordsConfig.model_validate({"train": files, "field": 2, "min_count": 1}))
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts, strict=True)) == {
        "film": 3,
        "good": 1,
        "bad": 1,
    }
    named = WordsConfig.model_validate(
        {"train": [str(tmp_path / "table.csv"), files[1]], "field": "text", "min_count": 1}
    )
    assert read_words(named).vocabulary.words == ["good", "film"]
    table = WordsConfig.model_validate({"train": files})
    with pytest.raises(DataError, match=r"table.tsv: has columns; name the one .* --set data.field=NUMBER"):
        check_sources(table)


def test_shipped_pairs_are_read_in_either_language():
    english, german = (
        read_words(WordsConfig.model_validate({"train": ["tatoeba-en-de"], "field": field}))
        for field in (0, 1)
    )
    assert "window" in english.vocabulary
    assert "fenster" in german.vocabulary
    assert "fenster" not in english.vocabulary
    assert "shakespeare" in SHIPPED_TEXTS


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no words in it; a word is made of letters"),
        ("12 34\n--\n", "no words in it; a word is made of letters"),
        ("word Word WORD", "holds one word, 3 times; vectors need different words"),
        ("a b c a", "fewer than two words occur 5 times (the most frequent 2 times); give more text, or"),
        ("a b a a a a", "fewer than two words occur 5 times (the most frequent 5 times)"),
    ],
)
def test_a_text_without_enough_words_is_one_line(text: str, error: str, tmp_path: Path):
    with pytest.raises(DataError) as raised:
        read_words(words_in(tmp_path, text))
    assert f"text.txt: {error}" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"training": {"clip_norm": 2.0}}, "clip_norm has no effect on word vectors; leave it out"),
        ({"training": {"optimizer": {"kind": "muon"}}}, "optimizer has no effect on word vectors"),
        ({"training": {"patience": 3}}, "patience has no effect on word vectors"),
        ({"model": {"kind": "word_vectors", "contexts": False}}, "training needs the vectors of contexts"),
        ({"batches": {"window": 0}}, "batches.window"),
        ({"data": {"train": []}}, "data.train: is empty; name a file"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, problem: str):
    with pytest.raises(SettingsError, match=problem):
        parse_settings(WordVectorsRecipe, {"kind": "word_vectors", "data": {"train": ["x"]}, **settings})


@pytest.mark.parametrize("name", ["imdb", "tatoeba"])
def test_the_shipped_recipes_are_valid(name: str):
    assert isinstance(read_recipe(Path(f"word_vectors/{name}.toml")), WordVectorsRecipe)

"""Texts with any number of labels, and weights of labels."""

import json
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.data.sources.examples import read_examples
from clearhead.errors import DataError, SettingsError
from clearhead.tasks.classification.data import LabelledTexts
from clearhead.tasks.classification.recipe import LabelledConfig
from clearhead.tasks.run import train

from ..conftest import finish
from .conftest import OTHERS, recipe, reviews, write

TOPICS = {"music": ["song", "tune"], "plot": ["story", "twist"], "cast": ["hero", "role"]}


def texts(count: int, seed: int = 0) -> list[tuple[list[str], str]]:
    """Any number of topics, each named by one of its words."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        topics = [topic for topic in TOPICS if random.random() < 0.4]
        words = [random.choice(TOPICS[topic]) for topic in topics] + random.choice(OTHERS, size=4).tolist()
        found.append((topics, " ".join(random.permutation(words).tolist())))
    return found


def jsonl(path: Path, rows: list[tuple[list[str], str]]) -> Path:
    path.write_text("".join(json.dumps({"labels": labels, "text": text}) + "\n" for labels, text in rows))
    return path


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    jsonl(folder / "train.jsonl", texts(300))
    jsonl(folder / "test.jsonl", texts(80, seed=1))
    return folder


@pytest.fixture(scope="module")
def model(topics: Path) -> Path:
    data = {"train": [str(topics / "train.jsonl")], "test": [str(topics / "test.jsonl")]}
    settings = recipe(topics, "encoder", data=data | {"class_weights": "balanced"})
    training = settings.training.model_copy(update={"steps": 150})
    finish(train(settings.model_copy(update={"training": training}), topics / "run"))
    return topics / "run"


def test_lists_of_labels_are_read_from_json_parquet_and_separated_columns(tmp_path: Path):
    import pyarrow
    from pyarrow import parquet

    rows = [(["a", "b"], "x y"), ([], "z"), (["b"], "y")]
    jsonl(tmp_path / "x.jsonl", rows)
    columns = {"labels": [labels for labels, _ in rows], "text": [text for _, text in rows]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    expected = [(tuple(labels), text) for labels, text in rows]
    assert list(read_examples(tmp_path / "x.jsonl")) == expected
    assert list(read_examples(tmp_path / "x.parquet")) == expected
    file = write(
        tmp_path / "x.tsv", [("a, b", f"text {n}") for n in range(9)] + [("b", f"b {n}") for n in range(9)]
    )
    found = LabelledTexts.read(LabelledConfig(train=(str(file),), label_separator=","), seed=1)
    assert (found.labels, found.multi_label) == (("a", "b"), True)
    assert {example.label for example in found.train} == {("a", "b"), ("b",)}
    one = LabelledTexts.read(LabelledConfig(train=(str(file),)), seed=1)
    assert (one.labels, one.multi_label) == (("a, b", "b"), False)


def test_a_number_is_a_label_in_a_list_and_a_nested_list_is_none(tmp_path: Path):
    (tmp_path / "x.jsonl").write_text('{"labels": [1, 2], "text": "x"}\n')
    assert list(read_examples(tmp_path / "x.jsonl")) == [(("1", "2"), "x")]
    (tmp_path / "y.jsonl").write_text('{"labels": [["a"]], "text": "x"}\n')
    with pytest.raises(DataError, match=r"line 1: field 'labels' is \[\"a\"\], not text"):
        list(read_examples(tmp_path / "y.jsonl"))
    (tmp_path / "z.jsonl").write_text('{"labels": ["a"], "text": ["x"]}\n')
    with pytest.raises(DataError, match=r"line 1: field 'text' is \[\"x\"\], not text"):
        list(read_examples(tmp_path / "z.jsonl"))


def test_a_text_gets_all_labels_above_the_threshold(model: Path):
    loaded = clearhead.load(model)
    both, none = loaded.classify(["a song and a story", "the film is very"])
    assert both.labels is not None
    assert {*both.labels} == {"music", "plot"}
    assert none.labels == ()
    assert str(both) == ", ".join(both.labels)
    low = loaded.classify("a song and a story", threshold=1e-6)
    assert low.labels == tuple(sorted(low.probabilities, key=lambda label: -low.probabilities[label]))
    with pytest.raises(SettingsError, match=r"threshold: 1 is not between 0 and 1"):
        loaded.classify("x", threshold=1.0)


def test_evaluation_scores_sets_of_labels(model: Path):
    record = clearhead.load(model).evaluate(model).record
    assert record["texts"] == 80
    assert record["micro_f1"] > 0.95
    assert record["accuracy"] > 0.9
    assert record["f1"].keys() == TOPICS.keys()
    assert 0 <= record["calibration_error"] < 0.2
    assert "confusion" not in record


def test_a_bag_refuses_several_labels_and_single_labels_refuse_lists(
    topics: Path, labelled: Path, tmp_path: Path
):
    data = {"train": [str(topics / "train.jsonl")]}
    with pytest.raises(DataError, match=r"a bag of words gives each text one; set model.kind to 'encoder'"):
        finish(train(recipe(topics, "bag", data=data), tmp_path / "bag"))
    with pytest.raises(DataError, match=r"has a list of labels, but the training texts have one label each"):
        LabelledTexts.read(
            LabelledConfig(train=(str(labelled / "train.tsv"),), validation=(str(topics / "test.jsonl"),)), 1
        )


def test_equal_texts_and_rare_labels_are_refused_in_one_line(tmp_path: Path):
    file = jsonl(tmp_path / "x.jsonl", [(["a", "b"], "the same")] * 20)
    with pytest.raises(DataError, match="all 20 texts are equal; add others"):
        LabelledTexts.read(LabelledConfig(train=(str(file),)), seed=1)
    rows = [(["a"], f"text {n}") for n in range(30)]
    config = LabelledConfig(train=(str(tmp_path / "y.jsonl"),))
    jsonl(tmp_path / "y.jsonl", [(["a", "b"], text) for _, text in rows])
    held_out = LabelledTexts.read(config, seed=1).validation[0].text
    jsonl(tmp_path / "y.jsonl", [(["a", "rare"] if text == held_out else ["a"], text) for _, text in rows])
    with pytest.raises(
        DataError, match="label 'rare' has no text left to train on after validation; add more"
    ):
        LabelledTexts.read(config, seed=1)


def test_balanced_weights_are_those_of_scikit_learn_and_find_more_of_a_rare_label(
    labelled: Path, tmp_path: Path
):
    from sklearn.utils.class_weight import compute_class_weight

    from clearhead.tasks.classification.task import ClassificationTask

    rows = reviews(400, seed=5)
    rare = [row for row in rows if row[0] == "pos"][:20] + [row for row in rows if row[0] == "neg"]
    file = write(tmp_path / "rare.tsv", rare)
    for kind in ("bag", "encoder"):
        settings = recipe(labelled, kind, data={"train": [str(file)], "class_weights": "balanced"})
        task = ClassificationTask(settings)
        task.texts = found = LabelledTexts.read(settings.data, 1)
        labels = [example.label for example in found.train]
        expected = compute_class_weight("balanced", classes=np.array(found.labels), y=labels)
        weights = task._weights()
        assert weights is not None
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6)
    recalls = {}
    for name, weights in {"plain": None, "weighted": {"pos": 50.0}}.items():
        data = {"train": [str(file)], "test": [str(labelled / "test.tsv")]}
        model = {"kind": "bag", "C": 0.001}
        finish(
            train(
                recipe(labelled, "bag", data=data | {"class_weights": weights}, model=model), tmp_path / name
            )
        )
        record = clearhead.load(tmp_path / name).evaluate(tmp_path / name).record
        recalls[name] = record["recall"]["pos"]
    assert recalls["weighted"] > recalls["plain"]
    wrong = recipe(labelled, "bag", data={"train": [str(file)], "class_weights": {"maybe": 2.0}})
    with pytest.raises(
        DataError, match=r"class_weights: 'maybe' is not a label of the texts, which have neg"
    ):
        finish(train(wrong, tmp_path / "wrong"))

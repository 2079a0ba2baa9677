"""Classifiers are trained, resumed, saved, loaded, used, explained and evaluated."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.checkpoint import WEIGHTS
from clearhead.errors import ModelError, TextError, TrainingError
from clearhead.models import MODELS
from clearhead.tasks.records import read_metrics
from clearhead.tasks.run import resume, train

from ..conftest import finish, interrupted_at
from .conftest import recipe, reviews, write


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def test_a_trained_classifier_is_loaded_and_classifies(trained: Path):
    model = clearhead.load(trained)
    good, bad = model.classify(["a very good and lovely film .", "the plot is dull and poor ."])
    assert (str(good), bad.label) == ("pos", "neg")
    assert sum(good.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert good.probability == max(good.probabilities.values())
    assert model.classify("a good lovely film") == model.classify(["a good lovely film"])[0]
    assert model.classify([]) == []


def test_what_is_classified_beside_a_text_does_not_change_its_label(trained: Path):
    model = clearhead.load(trained)
    texts = [text for _, text in reviews(20, seed=3)] + ["", "good " * 100]
    batched = model.logits(texts)
    alone = torch.cat([model.logits([text]) for text in texts])
    torch.testing.assert_close(batched, alone, rtol=1e-4, atol=1e-4)


def test_evaluation_measures_the_recipes_test_file(trained: Path):
    model = clearhead.load(trained)
    found = model.evaluate(trained)
    assert found.record["accuracy"] > 0.9
    assert found.record["texts"] == 60
    assert sum(map(sum, found.record["confusion"])) == 60
    assert any("macro-F1" in line for line in found.lines)


def test_a_bag_of_counted_words_notices_neither_order_nor_context(labelled: Path, tmp_path: Path):
    finish(
        train(
            recipe(labelled, "bag", model={"kind": "bag", "max_ngram": 1, "weighting": "counts"}),
            tmp_path / "r",
        )
    )
    record = clearhead.load(tmp_path / "r").evaluate(tmp_path / "r").record
    assert record["order"]["changed"] == 0
    assert record["context"] < 1e-5


def test_validation_selects_by_accuracy_and_the_card_reports_it(trained: Path):
    [final] = [line for line in read_metrics(trained) if line["kind"] == "final"]
    assert final["accuracy"] > 0.9
    card = (trained / "README.md").read_text()
    assert "accuracy" in card
    assert "neg, pos" in card
    held_out = (trained / "validation.jsonl").read_text().splitlines()
    assert 25 <= len(held_out) <= 30
    assert {json.loads(line)["label"] for line in held_out} == {"neg", "pos"}


def test_the_evidence_names_the_words_that_decide(trained: Path):
    model = clearhead.load(trained)
    evidence = model.evidence("the plot is awful .", "neg")
    assert list(evidence.values()) == sorted(evidence.values(), key=abs, reverse=True)
    assert evidence["awful"] > max(0, evidence["plot"])
    assert model.evidence("the plot is awful .", "pos")["awful"] < 0
    with pytest.raises(TextError, match="label: 'maybe' is not one of neg, pos"):
        model.evidence("good", "maybe")


def test_a_word_outside_the_vocabulary_is_reported(trained: Path):
    found = clearhead.load(trained).classify("a good lovely xyzzy film")
    assert (found.label, found.unknown) == ("pos", ("xyzzy",))


def test_a_sequence_model_is_captured_and_a_bag_has_nothing_to_capture(trained: Path, tmp_path: Path):
    model = clearhead.load(trained)
    if trained.name == "bag":
        assert not hasattr(model, "explain")
        return
    text = "a very good and lovely film ."
    explanation = model.explain(text)
    assert explanation.difference < 1e-4
    assert explanation.output == model.classify(text).label == "pos"
    assert [token.piece for token in explanation.sides["text"]][-1] == "</s>"
    assert explanation.save(tmp_path / "x.json").stat().st_size > 500


@pytest.mark.parametrize("kind", ["bilstm", "encoder"])
def test_an_interrupted_run_resumes_to_the_same_bits(kind: str, labelled: Path, tmp_path: Path):
    settings = recipe(labelled, kind)
    finish(train(settings, tmp_path / "whole"))
    assert interrupted_at({27}, train(settings, tmp_path / "parts")).interrupted
    finish(resume(tmp_path / "parts"))
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")


def test_a_bag_is_the_same_in_every_run_and_starts_again_after_a_crash(labelled: Path, tmp_path: Path):
    settings = recipe(labelled, "bag")
    finish(train(settings, tmp_path / "whole"))
    events = train(settings, tmp_path / "parts")
    while "fitting" not in getattr(next(events), "text", ""):
        pass
    events.close()  # the process ends before the weights are written
    assert not (tmp_path / "parts" / WEIGHTS).exists()
    finish(resume(tmp_path / "parts"))
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")
    with pytest.raises(TrainingError, match="is complete; there is nothing to resume"):
        finish(resume(tmp_path / "parts"))


def test_a_resumed_run_notices_other_data(labelled: Path, tmp_path: Path):
    file = write(tmp_path / "own.tsv", reviews(100))
    settings = recipe(labelled, "bilstm", data={"train": [str(file)]})
    assert interrupted_at({5}, train(settings, tmp_path / "run")).interrupted
    write(file, reviews(101))
    with pytest.raises(TrainingError, match="data: the files have changed"):
        finish(resume(tmp_path / "run"))


def test_a_damaged_processor_is_refused(trained: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    copy.mkdir()
    processor = MODELS[trained.name].Processor.FILE
    for name in ("config.toml", processor, WEIGHTS):
        (copy / name).write_bytes((trained / name).read_bytes())
    clearhead.load(copy)
    content = json.loads((copy / processor).read_text())
    (copy / processor).write_text(json.dumps({**content, "labels": ["pos", "neg"]}))
    with pytest.raises(ModelError, match="the files belong to different models"):
        clearhead.load(copy)
    (copy / processor).write_text(json.dumps({**content, "labels": ["neg", "neg"]}))
    with pytest.raises(ModelError, match="'labels' are not distinct texts"):
        clearhead.load(copy)


def test_the_relevance_of_tokens_names_the_words_that_decide_and_is_tested(trained: Path, tmp_path: Path):
    model = clearhead.load(trained)
    if trained.name == "bag":
        with pytest.raises(TypeError, match="explanations"):
            model.evaluate(trained, explanations=5)
        return
    text = "the plot is awful and a film ."
    found = model.relevance(text)
    assert found.label == "neg"
    pieces = [token.piece for token in model.explain(text).sides["text"]]
    values = found.values["gradient x (input - mean)"]
    assert len(values) == len(pieces)
    assert pieces[int(values.argmax())] == "awful"
    against = model.relevance(text, "pos").values["gradient x (input - mean)"]
    torch.testing.assert_close(against, -values, rtol=1e-3, atol=1e-5)
    assert ("attention rollout" in found.values) == (trained.name == "encoder")
    tested = model.evaluate(trained, explanations=20)
    record = tested.record["explanations"]
    assert record["examples"] == 20
    falls = record["comprehensiveness"]
    assert falls["gradient x (input - mean)"] > falls["random order"] + 0.05
    assert any("against a random order" in line for line in tested.lines)
    explanation = model.explain(text)
    assert explanation.save(tmp_path / "x.png", "relevance").stat().st_size > 1000
    saved = json.loads(explanation.save(tmp_path / "x.json").read_text())
    assert saved["relevance"]["label"] == "neg"
    assert saved["relevance"]["values"]["gradient x (input - mean)"] == pytest.approx(
        values.tolist(), abs=1e-5
    )

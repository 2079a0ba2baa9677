"""Classifiers that start from the body of another model, under a new head."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.checkpoint import WEIGHTS, load_checkpoint, save_checkpoint, weights
from clearhead.errors import ModelError, SettingsError
from clearhead.models import Encoder, EncoderConfig
from clearhead.tasks.classification.recipe import ClassificationRecipe
from clearhead.tasks.classification.sizing import fit_labels
from clearhead.tasks.classification.task import ClassificationTask
from clearhead.tasks.events import Note
from clearhead.tasks.run import resume, train
from clearhead.text.processor import TextProcessor
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig

from ..conftest import finish, interrupted_at
from .conftest import recipe, reviews

SHAPE = {"width": 16, "ffn_width": 32, "layers": 2, "attention": {"heads": 2}, "max_length": 16}


def saved(folder: Path, labels: tuple[str, ...], **changes) -> Path:
    """An encoder with random weights, for any labels."""
    texts = [text for _, text in reviews(100)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="word", vocabulary=60, lowercase=True))
    processor = TextProcessor(tokenizer, labels)
    torch.manual_seed(7)
    model = Encoder.build(EncoderConfig.model_validate({**SHAPE, "dropout": 0.0, **changes}), processor)
    save_checkpoint(folder, model, processor, {"kind": "classification"})
    return folder


def fine_tuning(labelled: Path, start: Path, **changes) -> ClassificationRecipe:
    """A recipe without [model] and [tokenizer], which are those of the folder it starts from."""
    values = recipe(labelled, "encoder").model_dump(mode="json", exclude_none=True)
    del values["model"], values["tokenizer"]
    values["training"] = {**values["training"], "init_from": str(start)}
    return ClassificationRecipe.model_validate({**values, **changes})


@pytest.fixture
def start(tmp_path: Path) -> Path:
    return saved(tmp_path / "start", ("a", "b", "c"))


def test_a_run_takes_the_body_and_tokenizer_of_another_model_under_a_new_head(
    start: Path, labelled: Path, tmp_path: Path
):
    schedule = {"kind": "constant", "learning_rate": 1e-12}
    training = {"init_from": str(start), "steps": 1, "schedule": schedule, "device": "cpu"}
    events = list(train(fine_tuning(labelled, start, training=training), tmp_path / "on"))
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any(note.endswith("start, under a new head") for note in notes)
    before, after = load_file(start / WEIGHTS), load_file(tmp_path / "on" / WEIGHTS)
    body = [name for name in before if not name.startswith("head.")]
    assert all(torch.allclose(before[name], after[name], atol=1e-9) for name in body)
    assert (len(before["head.output.bias"]), len(after["head.output.bias"])) == (3, 2)
    old, new = (load_checkpoint(folder).processor for folder in (start, tmp_path / "on"))
    assert old.tokenizer.fingerprint == new.tokenizer.fingerprint
    assert new.labels == ("neg", "pos")


def test_a_classifier_with_the_same_labels_also_gives_its_head(labelled: Path, tmp_path: Path):
    start = saved(tmp_path / "start", ("neg", "pos"))
    training = {"init_from": str(start), "steps": 1, "device": "cpu"}
    training["schedule"] = {"kind": "constant", "learning_rate": 1e-12}
    finish(train(fine_tuning(labelled, start, training=training), tmp_path / "on"))
    texts = [text for _, text in reviews(5)]
    old, new = (clearhead.load(folder).logits(texts) for folder in (start, tmp_path / "on"))
    torch.testing.assert_close(old, new, rtol=0, atol=1e-6)


def test_a_fine_tuned_model_learns_and_resumes_without_the_model_it_started_from(
    start: Path, labelled: Path, tmp_path: Path
):
    settings = fine_tuning(labelled, start)
    finish(train(settings, tmp_path / "whole"))
    assert interrupted_at({27}, train(settings, tmp_path / "parts")).interrupted
    shutil.rmtree(start)
    finish(resume(tmp_path / "parts"))
    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert clearhead.load(tmp_path / "whole").evaluate(tmp_path / "whole").record["accuracy"] > 0.9


def test_a_recipe_may_change_dropout_head_and_length_but_not_the_architecture(start: Path, labelled: Path):
    changes = {
        "kind": "encoder",
        "dropout": 0.25,
        "max_length": 64,
        "head": {"kind": "classifier", "pooling": "max"},
    }
    found = fine_tuning(labelled, start, model=changes).inherited()
    config = load_checkpoint(start).model.config
    head = config.head.model_copy(update={"pooling": "max"})
    assert found.model == config.model_copy(update={"dropout": 0.25, "max_length": 64, "head": head})
    assert found.tokenizer is not None
    assert found.tokenizer.vocabulary == 60
    with pytest.raises(ModelError, match=r"init_from: .*start has model.width 16, this recipe 32; make"):
        fine_tuning(labelled, start, model={"kind": "encoder", "width": 32}).inherited()


def test_a_masked_model_is_fine_tuned_on_labelled_texts_without_a_recipe(labelled: Path, tmp_path: Path):
    start = saved(tmp_path / "masked", (), head={"kind": "masked_tokens"})
    fitted = fit_labels([str(labelled / "train.tsv")], [f"training.init_from={start}", "training.steps=20"])
    assert any(line.endswith(f"below the head are those of {start}") for line in fitted.choices())
    model, before = fitted.recipe.model, load_checkpoint(start).model.config
    assert (model.head.kind, model.dropout, before.dropout) == ("classifier", 0.1, 0.0)  # pyright: ignore
    assert (model.layers, model.width, model.max_length) == (2, 16, 16)  # pyright: ignore
    finish(train(fitted.recipe, tmp_path / "on"))
    assert load_checkpoint(tmp_path / "on").processor.labels == ("neg", "pos")


def test_learned_positions_cannot_become_more(labelled: Path, tmp_path: Path):
    start = saved(tmp_path / "start", ("a", "b"), position="learned")
    with pytest.raises(ModelError, match=r"has model.max_length 16, this recipe 64; make them equal"):
        fine_tuning(labelled, start, model={"kind": "encoder", "max_length": 64}).inherited()


def test_a_model_of_another_kind_is_refused(labelled: Path, start: Path, trained: Path):
    if trained.name == "bag":
        with pytest.raises(ModelError, match=r"init_from: .*bag holds a model without a tokenizer; name"):
            fine_tuning(labelled, trained).inherited()
        with pytest.raises(
            ValueError, match=r"training\.init_from, .*: a bag is fitted at once and uses only"
        ):
            fine_tuning(labelled, start, model={"kind": "bag"}, batches=None)
    if trained.name == "bilstm":
        with pytest.raises(ModelError, match="holds a bilstm, but this recipe trains an encoder; name"):
            fine_tuning(labelled, trained, model={"kind": "encoder"}).inherited()
    with pytest.raises((ModelError, SettingsError), match=r"training\.init_from: .*nowhere: no such model"):
        fine_tuning(labelled, Path("nowhere")).inherited()


def test_a_folder_of_hugging_face_must_be_imported_first(labelled: Path, tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        ModelError, match=r"training\.init_from: .*: is a Hugging Face model; import it first: "
    ):
        fine_tuning(labelled, tmp_path).inherited()


def test_the_weights_of_a_built_model_are_those_of_the_folder(start: Path, labelled: Path):
    from clearhead.tasks.init_from import init_weights_from

    task = ClassificationTask(fine_tuning(labelled, start).inherited())
    task.processor = load_checkpoint(start).processor
    model = task.build()
    assert not init_weights_from(model, start, task.processor), "the same labels: the head is copied"
    expected = load_file(start / WEIGHTS)
    assert all(torch.equal(value, expected[name]) for name, value in weights(model).items())

"""A model of theirs is the beginning of a run of ours, which can be resumed."""

import shutil

import tokenizers
from tokenizers import models, trainers

from clearhead.config import read_toml
from clearhead.interop.huggingface import export_model, import_model
from clearhead.tasks.events import Finished
from clearhead.tasks.recipes import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer

from .conftest import TEXT


def test_a_model_of_theirs_is_trained_on_and_the_run_resumed(tmp_path):
    """Its tokenizer is of a kind that no run of ours would learn."""
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question\n" * 50)
    shape = {
        "preset": "shakespeare-small",
        "activation": "swiglu",
        "width": 16,
        "ffn_width": 32,
        "context_length": 16,
    }
    training = {"device": "cpu", "steps": 2, "validate_every": 2}
    values = {
        "kind": "language",
        "data": {"train": [str(tmp_path / "text.txt")]},
        "batches": {"tokens": 64},
        "training": training,
    }
    tokenizer = {"kind": "character", "vocabulary": 60}
    list(train(parse_recipe(values | {"model": shape, "tokenizer": tokenizer}), tmp_path / "ours"))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back")
    on = parse_recipe(values | {"training": training | {"init_from": str(tmp_path / "back")}})
    list(train(on, tmp_path / "on"))
    *_, finished = resume(tmp_path / "on", ["training.steps=3"])
    assert isinstance(finished, Finished)
    assert finished.step == 3


def test_a_run_that_began_with_words_that_are_not_of_bytes_goes_on(folders, tmp_path):
    shutil.copytree(folders["llama"], tmp_path / "theirs")
    inner = tokenizers.Tokenizer(models.BPE())
    inner.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=100, show_progress=False))
    inner.save(str(tmp_path / "theirs" / "tokenizer.json"))
    import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "text.txt").write_text(TEXT * 20)
    values = {
        "kind": "language",
        "data": {"train": [str(tmp_path / "text.txt")]},
        "model": read_toml(tmp_path / "ours" / "config.toml")["model"],
        "batches": {"tokens": 64},
        "training": {"init_from": str(tmp_path / "ours"), "steps": 1, "device": "cpu"},
    }
    for _ in train(parse_recipe(values), tmp_path / "run"):
        pass
    assert Tokenizer.load(tmp_path / "run" / "tokenizer.json").config.kind == "bpe"
    *_, last = resume(tmp_path / "run", ["training.steps=2"])
    assert isinstance(last, Finished)
    assert last.step == 2

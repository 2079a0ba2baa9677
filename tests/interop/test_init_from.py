"""Runs that start from an imported model train and resume."""

import shutil

import tokenizers
from tokenizers import models, trainers

from clearhead.config import read_toml
from clearhead.interop.huggingface import export_model, import_model
from clearhead.tasks.events import Finished
from clearhead.tasks.recipe import parse_recipe
from clearhead.tasks.run import resume, train
from clearhead.text.tokenizer import Tokenizer

from .conftest import TEXT


def test_a_run_that_starts_from_an_imported_model_resumes(tmp_path):
    """Although its tokenizer is of a kind that no recipe trains."""
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
    list(train(parse_recipe(values | {"model": shape, "tokenizer": tokenizer}), tmp_path / "clearhead"))
    export_model(tmp_path / "clearhead", tmp_path / "huggingface")
    import_model(tmp_path / "huggingface", tmp_path / "back")
    on = parse_recipe(values | {"training": training | {"init_from": str(tmp_path / "back")}})
    list(train(on, tmp_path / "on"))
    *_, finished = resume(tmp_path / "on", ["training.steps=3"])
    assert isinstance(finished, Finished)
    assert finished.step == 3


def test_a_run_that_starts_from_a_tokenizer_without_bytes_resumes(folders, tmp_path):
    shutil.copytree(folders["llama"], tmp_path / "huggingface")
    inner = tokenizers.Tokenizer(models.BPE())
    inner.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=100, show_progress=False))
    inner.save(str(tmp_path / "huggingface" / "tokenizer.json"))
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    (tmp_path / "text.txt").write_text(TEXT * 20)
    values = {
        "kind": "language",
        "data": {"train": [str(tmp_path / "text.txt")]},
        "model": read_toml(tmp_path / "clearhead" / "config.toml")["model"],
        "batches": {"tokens": 64},
        "training": {"init_from": str(tmp_path / "clearhead"), "steps": 1, "device": "cpu"},
    }
    for _ in train(parse_recipe(values), tmp_path / "run"):
        pass
    assert Tokenizer.load(tmp_path / "run" / "tokenizer.json").config.kind == "bpe"
    *_, last = resume(tmp_path / "run", ["training.steps=2"])
    assert isinstance(last, Finished)
    assert last.step == 2

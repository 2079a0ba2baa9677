"""A saved model loads bit-identically, runs no code, and is refused if its files do not belong together."""

import os
import pickle
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from clearhead import checkpoint
from clearhead.checkpoint import load_checkpoint, load_weights, save_weights, weights
from clearhead.errors import ModelError
from clearhead.models import Translator, TranslatorConfig

SMALL = {"width": 16, "ffn_width": 32, "attention": {"heads": 2}, "encoder_layers": 1, "decoder_layers": 1}


def make_translator(seed: int = 0, vocabulary: int = 24, **settings) -> Translator:
    torch.manual_seed(seed)
    return Translator(TranslatorConfig.model_validate(SMALL | settings), vocabulary)


@pytest.fixture
def folder(number_model, tmp_path) -> Path:
    """A copy of a trained model's folder."""
    return Path(shutil.copytree(number_model, tmp_path / "model"))


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi", "none"])
@pytest.mark.parametrize("score", ["scaled", "additive", "location"])
def test_saved_weights_load_bit_identically(tied, position, score, tmp_path):
    attention = {"heads": 2, "score": score}
    settings = {"tied": tied, "position": position, "attention": attention}
    model, other = (make_translator(seed, **settings) for seed in (0, 1))
    save_weights(weights(model), tmp_path / "model.safetensors")
    load_weights(other, tmp_path / "model.safetensors")
    ours, theirs = weights(model), weights(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_weights_are_stored_once(tied, matrices, tmp_path):
    model = make_translator(tied=tied, vocabulary=23)
    save_weights(weights(model), tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.shape == (23, 16) for tensor in stored.values()) == matrices


def test_a_loaded_model_is_ready_for_use(number_model):
    loaded = load_checkpoint(number_model)
    assert not loaded.model.training
    assert loaded.settings["data"]["source"] == "en"
    stored = load_file(number_model / "model.safetensors")
    assert all(torch.equal(stored[name], value) for name, value in weights(loaded.model).items())


def test_a_model_too_large_for_its_device_runs_on_the_cpu(number_model, monkeypatch, caplog):
    move = torch.nn.Module.to

    def to(self, device):
        if device != "cpu":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return move(self, device)

    monkeypatch.setattr(torch.nn.Module, "to", to)
    loaded = load_checkpoint(number_model, "meta").model
    assert next(loaded.parameters()).device.type == "cpu"
    (record,) = caplog.records
    assert record.getMessage() == f"{number_model}: too large for the memory of meta; it runs on the CPU"


def test_loading_leaves_the_random_generator_untouched(number_model):
    before = torch.get_rng_state()
    load_checkpoint(number_model)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_weights_are_loaded(folder):
    stored = load_file(folder / "model.safetensors")
    save_file({name: value.bfloat16() for name, value in stored.items()}, folder / "model.safetensors")
    loaded = weights(load_checkpoint(folder).model)
    assert all(torch.equal(loaded[name], value.bfloat16().float()) for name, value in stored.items())


def test_loading_runs_no_code(folder, tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    for name, message in (
        ("model.safetensors", "truncated or not a weights file"),
        ("tokenizer.json", "not UTF-8 text|cut short or not JSON"),
        ("config.toml", "not UTF-8|not valid TOML"),
    ):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(pickle.dumps(Hostile()))
        with pytest.raises(ModelError, match=f"{name}: ({message})"):
            load_checkpoint(folder)
        (folder / name).write_bytes(whole)
    assert not (tmp_path / "harm").exists()


def test_nothing_in_the_package_reads_pickles():
    for path in Path(checkpoint.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8").replace("allow_pickle=False", "")
        assert "pickle" not in text, path
        assert "torch.load(" not in text, path


@pytest.mark.parametrize("name", ["config.toml", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(name, folder):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"model: no trained model here, {name} is missing"):
        load_checkpoint(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ModelError, match="nowhere: no such model folder"):
        load_checkpoint(tmp_path / "nowhere")


def test_every_unknown_setting_of_the_model_is_named(folder):
    settings = folder / "config.toml"
    settings.write_text(settings.read_text().replace("ffn_width = 64", "ffn_widht = 64\nbeauty = 2"))
    with pytest.raises(ModelError) as refused:
        load_checkpoint(folder)
    lines = str(refused.value).splitlines()
    assert lines == [
        f"{settings}: model.ffn_widht: unknown setting (did you mean ffn_width?)",
        f"{settings}: model.beauty: unknown setting",
    ]


@pytest.mark.parametrize(
    ("setting", "described"),
    [
        ("ffn_width", "width [0-9]+ and ffn_width 9,"),
        ("max_length", "[0-9,]+ positions"),
        ("encoder_layers", "[0-9,]+ layers"),
    ],
)
def test_settings_far_beyond_the_weights_are_refused_before_memory_is_allocated(setting, described, folder):
    settings = folder / "config.toml"
    settings.write_text(re.sub(rf"\b{setting} = \d+", f"{setting} = 9000000000000", settings.read_text()))
    with pytest.raises(ModelError, match=f"describes {described}.*, but the weights are .* in all"):
        load_checkpoint(folder)


def test_weights_of_another_model_are_refused(folder):
    path = folder / "model.safetensors"
    stored = load_file(path)
    name = next(name for name in stored if name.startswith("decoder"))

    save_file({other: value for other, value in stored.items() if other != name}, path)
    with pytest.raises(
        ModelError, match=f"has no {name}; it belongs to another model than config.toml describes"
    ):
        load_checkpoint(folder)

    save_file(stored | {"extra": torch.ones(1)}, path)
    with pytest.raises(ModelError, match=r"extra is not part of the model that config\.toml describes"):
        load_checkpoint(folder)

    save_file(stored | {name: torch.ones(3, 5)}, path)
    with pytest.raises(ModelError, match=f"{name} is 3 x 5, but config.toml describes .* different models"):
        load_checkpoint(folder)


def test_a_tokenizer_of_another_model_is_refused_even_if_it_has_the_same_size(folder):
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"seven"', '"sieben"'))
    with pytest.raises(ModelError, match=r"json: not the file that model\.safetensors was trained with"):
        load_checkpoint(folder)
    # Weights without a hash are accepted if the sizes fit.
    save_file(load_file(folder / "model.safetensors"), folder / "model.safetensors")
    assert load_checkpoint(folder).processor.id("sieben")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save_weights(weights(make_translator(0)), path)
    before = path.read_bytes()

    def full(tensors, file, metadata):
        Path(file).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(ModelError, match=r"model.safetensors: cannot be written \(No space left on device\)"):
        save_weights(weights(make_translator(1)), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_missing_parent_folder_is_named(tmp_path):
    with pytest.raises(
        ModelError, match=r"no/model\.safetensors: cannot be written .*free some space and try again"
    ):
        save_weights(weights(make_translator()), tmp_path / "no" / "model.safetensors")


def test_weights_are_saved_with_a_hash_of_the_tokenizer(number_model):
    with safe_open(number_model / "model.safetensors", framework="pt") as file:
        assert set(file.metadata()) == {"tokenizer"}

"""Damaged and unsupported folders are refused with one line that says where the fault is."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead.errors import ModelError
from clearhead.interop.huggingface import import_model


def copied(folders: dict[str, Path], out: Path, name: str = "gpt2") -> Path:
    return Path(shutil.copytree(folders[name], out / "damaged"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "gpt2",
            lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.bias"),
            "transformer.h.1.mlp.c_fc.bias is missing; copy the folder again",
        ),
        (
            "gpt2",
            lambda tensors: tensors.update({"transformer.h.2.ln_1.bias": torch.zeros(32)}),
            "transformer.h.2.ln_1.bias is unknown; the model that config.json describes has no such tensor",
        ),
        (
            "llama",
            lambda tensors: tensors.pop("model.layers.0.self_attn.k_proj.weight"),
            "model.layers.0.self_attn.k_proj.weight is missing; copy the folder again",
        ),
        (
            "llama",
            lambda tensors: tensors.update({"model.norm.weight": torch.zeros(31)}),
            "model.norm.weight is 31, config.json expects 32; the files belong to different models",
        ),
        (
            "gpt2",
            lambda tensors: tensors.update({"transformer.h.0.attn.c_attn.weight": torch.zeros(3, 5)}),
            "transformer.h.0.attn.c_attn.weight is 3 x 5, config.json expects 32 x 96; "
            "the files belong to different models",
        ),
        (
            "llama",
            lambda tensors: tensors.update({"model.layers.0.self_attn.k_proj.weight": torch.tensor(1.0)}),
            "model.layers.0.self_attn.q_proj.weight is 32 x 32 and "
            "model.layers.0.self_attn.k_proj.weight is a single number and "
            "model.layers.0.self_attn.v_proj.weight is 16 x 32, config.json expects 64 x 32 "
            "together; the files belong to different models",
        ),
    ],
)
def test_missing_unknown_and_misshapen_tensors_are_named(name, change, message, folders, tmp_path):
    folder = copied(folders, tmp_path, name)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value) == f"{folder / 'model.safetensors'}: {message}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "t5"},
            "model_type: 't5' is not one of gpt2, llama, mistral, qwen3, bert, roberta, distilbert, "
            "vit, timm, marian, pegasus",
        ),
        (
            {"activation_function": "tanh"},
            "activation_function: 'tanh' is not supported; "
            "expected 'gelu_new' or 'gelu_pytorch_tanh' or 'gelu' or 'relu' or 'swish' or 'silu'",
        ),
        ({"n_head": 5}, "width 32 is not divisible by attention.heads 5"),
        ({"n_layer": "two"}, "layers: 'two' is not an integer"),
        (
            {"attn_pdrop": "x"},
            "a value has the wrong type for gpt2 (could not convert string to float: 'x'); "
            "copy the file again",
        ),
    ],
)
def test_unsupported_and_invalid_settings_are_named(changes, message, folders, tmp_path):
    folder = copied(folders, tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value) == f"{folder / 'config.json'}: {message}"


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("gpt2", {"n_embd": 2 * 10**9}, "tokens of width 2,000,000,000"),
        ("gpt2", {"n_inner": 10**12}, "width 32 and ffn_width 1,000,000,000,000"),
        ("gpt2", {"n_layer": 10**9}, "1,000,000,000 layers"),
        ("gpt2", {"n_positions": 10**12}, "1,000,000,000,000 positions"),
        ("gpt2", {"vocab_size": 10**15}, "1,000,000,000,000,000 tokens of width 32"),
        ("llama", {"max_position_embeddings": 10**12}, "1,000,000,000,000 positions"),
        ("llama", {"head_dim": 10**12}, "heads of size 1,000,000,000,000"),
    ],
)
def test_settings_that_exceed_the_weights_are_refused_before_memory_is_allocated(
    name, changes, expected, folders, tmp_path
):
    folder = copied(folders, tmp_path, name)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value).startswith(f"{folder / 'config.json'}: describes ")
    assert f"{expected}, but the weights are " in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_clearhead_model_is_not_imported(babbler, tmp_path):
    with pytest.raises(ModelError, match="already a clearhead model; use it as it is"):
        import_model(babbler, tmp_path / "out")


def test_an_index_that_names_no_files_is_refused(folders, tmp_path):
    folder = copied(folders, tmp_path)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["model.safetensors"]}')
    with pytest.raises(ModelError, match=r"index\.json: weight_map: does not map tensors to files"):
        import_model(folder, tmp_path / "out")


def test_scaled_rotary_positions_are_refused(folders, tmp_path):
    folder = copied(folders, tmp_path, "llama")
    settings = json.loads((folder / "config.json").read_text())
    settings["rope_parameters"] = {"rope_type": "llama3", "rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="rope_type: 'llama3' is not supported; expected 'default'"):
        import_model(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "not a Hugging Face model, config.json is missing"),
        ("model.safetensors", "model.safetensors is missing; convert pytorch_model.bin to it"),
        ("vocab.json", "no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt"),
    ],
)
def test_missing_files_are_named(name, message, folders, tmp_path):
    folder = copied(folders, tmp_path)
    (folder / name).unlink()
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "out")
    assert str(caught.value).startswith(f"{folder}: {message}")

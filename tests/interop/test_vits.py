"""Imported and exported vision Transformers have the same logits and pixels as the originals."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from clearhead.checkpoint import load_checkpoint
from clearhead.errors import ModelError
from clearhead.interop.huggingface import export_model, import_model

SMALL = {
    "hidden_size": 48,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 24,
    "patch_size": 8,
    "id2label": {0: "cat", 1: "dog", 2: "newt"},
    "label2id": {"cat": 0, "dog": 1, "newt": 2},
}
PIXELS = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.4, 0.3], "resample": 3}
# How timm names what transformers names otherwise.
TIMM = {
    r"vit\.embeddings\.(cls_token)": r"\1",
    r"vit\.embeddings\.position_embeddings": "pos_embed",
    r"vit\.embeddings\.patch_embeddings\.projection": "patch_embed.proj",
    r"vit\.encoder\.layer\.(\d+)\.attention\.output\.dense": r"blocks.\1.attn.proj",
    r"vit\.encoder\.layer\.(\d+)\.intermediate\.dense": r"blocks.\1.mlp.fc1",
    r"vit\.encoder\.layer\.(\d+)\.output\.dense": r"blocks.\1.mlp.fc2",
    r"vit\.encoder\.layer\.(\d+)\.layernorm_before": r"blocks.\1.norm1",
    r"vit\.encoder\.layer\.(\d+)\.layernorm_after": r"blocks.\1.norm2",
    r"vit\.layernorm": "norm",
    r"^classifier": "head",
}


def huggingface_folder(folder: Path, **changes) -> transformers.PreTrainedModel:
    """A model of the transformers library in a folder, with weights far from zero."""
    torch.manual_seed(1)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**{**SMALL, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PIXELS | {"size": {"height": 24}}))
    return model


def timm_folder(folder: Path) -> transformers.PreTrainedModel:
    """The same weights as timm stores them: queries, keys and values in one matrix."""
    model = huggingface_folder(folder, layer_norm_eps=1e-6)
    tensors, parts = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        found = re.fullmatch(r"vit\.encoder\.layer\.(\d+)\.attention\.attention\.(\w+)\.(\w+)", name)
        if found:
            parts.setdefault(f"blocks.{found[1]}.attn.qkv.{found[3]}", {})[found[2]] = tensor
            continue
        for theirs, timm in TIMM.items():
            name = re.sub(theirs, timm, name)
        tensors[name] = tensor
    for name, three in parts.items():
        tensors[name] = torch.cat([three[part] for part in ("query", "key", "value")])
    save_file(tensors, folder / "model.safetensors")
    (folder / "preprocessor_config.json").unlink()
    settings = {
        "architecture": "vit_tiny_patch16_224",
        "num_classes": 3,
        "num_features": 48,
        "global_pool": "token",
        "label_names": ["cat", "dog", "newt"],
        "model_args": {"img_size": 24, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4},
        "pretrained_cfg": {"mean": PIXELS["image_mean"], "std": PIXELS["image_std"]},
    }
    (folder / "config.json").write_text(json.dumps(settings))
    return model


@torch.no_grad()
def equal_logits(folder: Path, original: transformers.PreTrainedModel) -> bool:
    model: Any = load_checkpoint(folder).model
    images = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model(images), original(images).logits, atol=1e-4, rtol=0)
    return True


def test_an_imported_vit_has_the_same_logits_and_export_undoes_import(tmp_path):
    original = huggingface_folder(tmp_path / "huggingface")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    assert equal_logits(tmp_path / "clearhead", original)
    assert export_model(tmp_path / "clearhead", tmp_path / "again") == "vit"
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "again").eval()
    assert equal_logits(tmp_path / "clearhead", again)
    assert again.config.id2label == original.config.id2label
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("huggingface", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_model_of_timm_has_the_same_logits_and_is_exported_to_transformers(tmp_path):
    original = timm_folder(tmp_path / "timm")
    import_model(tmp_path / "timm", tmp_path / "clearhead")
    assert equal_logits(tmp_path / "clearhead", original)
    assert load_checkpoint(tmp_path / "clearhead").processor.labels == ("cat", "dog", "newt")
    assert export_model(tmp_path / "clearhead", tmp_path / "again") == "vit"
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "again").eval()
    assert equal_logits(tmp_path / "clearhead", again)


def test_pixels_are_those_of_transformers_also_after_export(tmp_path):
    huggingface_folder(tmp_path / "huggingface")
    import_model(tmp_path / "huggingface", tmp_path / "clearhead")
    export_model(tmp_path / "clearhead", tmp_path / "again")
    random = np.random.default_rng(0)
    image = Image.fromarray(random.integers(0, 256, (40, 30, 3), dtype=np.uint8))
    ours = load_checkpoint(tmp_path / "clearhead").processor([image])
    exported = json.loads((tmp_path / "again" / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(exported[name]).view(3, 1, 1) for name in ("image_mean", "image_std"))
    resized = image.resize((24, 24), Image.Resampling(exported["resample"]))
    expected = (torch.from_numpy(np.array(resized)).permute(2, 0, 1) / 255 - mean) / std
    torch.testing.assert_close(ours[0], expected, atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (huggingface_folder, {"num_channels": 1}, "num_channels: 1 is not supported; expected 3"),
        (huggingface_folder, {"qkv_bias": False}, "qkv_bias: False is not supported; expected True"),
        (huggingface_folder, {"image_size": 25}, "image_size 25 is not divisible by 8"),
        (timm_folder, {"global_pool": "avg"}, "global_pool: 'avg' is not supported; expected 'token'"),
        (
            timm_folder,
            {"architecture": "resnet50"},
            "architecture: 'resnet50' is not vit_SIZE_patch16_224, where SIZE is one of tiny, small, ",
        ),
        (timm_folder, {"num_classes": "x", "label_names": None}, "a value has the wrong type for timm ("),
        (timm_folder, {"pretrained_cfg": "x"}, "a value has the wrong type for timm ("),
        (timm_folder, {"pretrained_cfg": {"mean": [1]}}, "mean and std of pixels: [1] are not three numbers"),
    ],
)
def test_unsupported_settings_are_named(make, changes, message, tmp_path):
    folder = tmp_path / "theirs"
    make(folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ModelError) as caught:
        import_model(folder, tmp_path / "clearhead")
    assert str(caught.value).startswith(f"{folder / 'config.json'}: {message}")
    assert not (tmp_path / "clearhead").exists()


def test_a_part_that_only_timm_has_is_named(tmp_path):
    timm_folder(tmp_path / "timm")
    tensors = load_file(tmp_path / "timm" / "model.safetensors")
    save_file(tensors | {"blocks.0.ls1.gamma": torch.ones(48)}, tmp_path / "timm" / "model.safetensors")
    with pytest.raises(ModelError, match=r"blocks\.0\.ls1\.\w+ is unknown"):
        import_model(tmp_path / "timm", tmp_path / "clearhead")

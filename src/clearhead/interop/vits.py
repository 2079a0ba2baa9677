"""Vision Transformers of Hugging Face transformers and of timm: their settings, tensors and preprocessing."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from clearhead.data.image_processor import Channels, ImageProcessor
from clearhead.errors import ModelError
from clearhead.interop.architecture import (
    ACTIVATIONS,
    Architecture,
    Files,
    activation_name,
    class_names,
    label_settings,
    layers,
    require,
)
from clearhead.interop.weight_map import Tensors, WeightMap
from clearhead.models.vit import ViT, ViTConfig
from clearhead.text.huggingface import read_json

PREPROCESSOR = "preprocessor_config.json"
# Pillow's numbers for them.
RESAMPLES = {2: "bilinear", 3: "bicubic"}
# Width, layers and heads of timm's models by name (Dosovitskiy et al. 2021, Touvron et al. 2021).
SIZES = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
TIMM_NAME = re.compile(r"(?:vit|deit)_(\w+?)_patch(\d+)_(\d+)")
HALF = (0.5, 0.5, 0.5)


def _read_vit(settings: Mapping[str, Any]) -> dict[str, Any]:
    require(settings, {"hidden_act": tuple(ACTIVATIONS), "qkv_bias": (True,), "num_channels": (3,)})
    return {
        "image_size": settings.get("image_size", 224),
        "patches": {"kind": "linear", "size": settings.get("patch_size", 16)},
        "width": settings.get("hidden_size", 768),
        "ffn_width": settings.get("intermediate_size", 3072),
        "layers": settings.get("num_hidden_layers", 12),
        "attention": {
            "heads": settings.get("num_attention_heads", 12),
            "dropout": float(settings.get("attention_probs_dropout_prob", 0.0)),
        },
        "activation": ACTIVATIONS[settings.get("hidden_act", "gelu")],
        "norm_epsilon": float(settings.get("layer_norm_eps", 1e-12)),
        "dropout": float(settings.get("hidden_dropout_prob", 0.0)),
    }


def _write_vit(config: ViTConfig) -> dict[str, Any]:
    return {
        "image_size": config.image_size,
        "patch_size": config.patches.reduction,
        "hidden_size": config.width,
        "intermediate_size": config.ffn_width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.attention.heads,
        "attention_probs_dropout_prob": config.attention.dropout,
        "hidden_act": activation_name(config.activation, "gelu"),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "hidden_dropout_prob": config.dropout,
    }


def _read_timm(settings: Mapping[str, Any]) -> dict[str, Any]:
    name = str(settings.get("architecture"))
    found = TIMM_NAME.fullmatch(name.partition(".")[0])
    if found is None or found[1] not in SIZES:
        known = ", ".join(SIZES)
        raise ModelError(f"architecture: {name!r} is not vit_SIZE_patch16_224, where SIZE is one of {known}")
    require(settings, {"global_pool": ("token",)})
    width, depth, heads = SIZES[found[1]]
    given = settings.get("model_args") or {}
    width = given.get("embed_dim", width)
    return {
        "image_size": given.get("img_size", int(found[3])),
        "patches": {"kind": "linear", "size": given.get("patch_size", int(found[2]))},
        "width": width,
        "ffn_width": int(width * given.get("mlp_ratio", 4)),
        "layers": given.get("depth", depth),
        "attention": {"heads": given.get("num_heads", heads)},
        "activation": "gelu",
        "norm_epsilon": 1e-6,
    }


def read_processor(folder: Path, settings: Mapping[str, Any]) -> ImageProcessor:
    found = read_json(folder / PREPROCESSOR)
    resample = RESAMPLES.get(found.get("resample", 2), "bilinear")
    # The library squashes images that are not square.
    return _processor(
        _read_vit(settings)["image_size"],
        found.get("image_mean", HALF),
        found.get("image_std", HALF),
        class_names(settings),
        fit="squash",
        resample=resample,
    )


def read_timm_processor(folder: Path, settings: Mapping[str, Any]) -> ImageProcessor:
    found = settings.get("pretrained_cfg") or {}
    names = settings.get("label_names") or [f"LABEL_{n}" for n in range(settings.get("num_classes", 1000))]
    resample = found.get("interpolation", "bicubic")
    return _processor(
        _read_timm(settings)["image_size"],
        found.get("mean", HALF),
        found.get("std", HALF),
        class_names({"id2label": {str(number): name for number, name in enumerate(names)}}),
        fit="crop",
        resample=resample if resample in RESAMPLES.values() else "bicubic",
    )


def _processor(size: int, mean: Any, std: Any, labels: tuple[str, ...], **how: Any) -> ImageProcessor:
    for values in (mean, std):
        if len(values) != 3 or not all(isinstance(value, int | float) for value in values):
            raise ModelError(f"mean and std of pixels: {values!r} are not three numbers; copy the file again")
    mean, std = (cast(Channels, tuple(map(float, values))) for values in (mean, std))
    return ImageProcessor(size, mean, std, labels, **how)


def write_processor(processor: ImageProcessor, config: ViTConfig) -> tuple[dict[str, Any], Files]:
    numbers = {name: number for number, name in RESAMPLES.items()}
    preprocessor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": processor.size, "width": processor.size},
        "resample": numbers.get(processor.resample, 3),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(processor.mean),
        "image_std": list(processor.std),
    }
    return label_settings(processor.labels), {PREPROCESSOR: preprocessor}


def _model(prefix: str, position: str, patches: str, norm: str) -> dict[str, Tensors]:
    return {
        "embedding.class_token": Tensors((f"{prefix}cls_token",), leading_axes=2),
        "embedding.position.weight": Tensors((f"{prefix}{position}",), leading_axes=1),
        **layers(("embedding.patches", f"{prefix}{patches}"), ("encoder.norm", norm)),
    }


LAYER = "encoder.layer.{}."
BLOCK = layers(
    ("attention.project", tuple(f"{LAYER}attention.attention.{name}" for name in ("query", "key", "value"))),
    ("attention.output", f"{LAYER}attention.output.dense"),
    ("attention_residual.norm", f"{LAYER}layernorm_before"),
    ("feedforward.inner", f"{LAYER}intermediate.dense"),
    ("feedforward.outer", f"{LAYER}output.dense"),
    ("feedforward_residual.norm", f"{LAYER}layernorm_after"),
)
TIMM_BLOCK = layers(
    ("attention.project", "blocks.{}.attn.qkv"),
    ("attention.output", "blocks.{}.attn.proj"),
    ("attention_residual.norm", "blocks.{}.norm1"),
    ("feedforward.inner", "blocks.{}.mlp.fc1"),
    ("feedforward.outer", "blocks.{}.mlp.fc2"),
    ("feedforward_residual.norm", "blocks.{}.norm2"),
)
HUGGINGFACE = WeightMap(
    "vit.",
    _model("embeddings.", "position_embeddings", "patch_embeddings.projection", "layernorm"),
    {"encoder": BLOCK},
    layers(("head.output", "classifier")),
    ignored=(r"vit\.pooler\..*",),
)
TIMM = WeightMap(
    "",
    _model("", "pos_embed", "patch_embed.proj", "norm"),
    {"encoder": TIMM_BLOCK},
    layers(("head.output", "head")),
)
TASK = "image_classification"
VITS = (
    Architecture(
        "vit",
        "ViTForImageClassification",
        TASK,
        ViT,
        _read_vit,
        _write_vit,
        HUGGINGFACE,
        read_processor,
        write_processor,
    ),
    Architecture("timm", "VisionTransformer", TASK, ViT, _read_timm, None, TIMM, read_timm_processor, None),
)

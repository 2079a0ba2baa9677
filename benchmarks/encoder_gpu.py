"""Training speed of encoders on a GPU, compared with Hugging Face's BERT and ViT in one run.

bert: masked language modelling with the base shape (Devlin et al. 2019). vit: ViT-Ti/4 (Touvron et al. 2021)
on small images. Both sides have the same architecture, batches and AdamW, bf16 autocast, gradient clipping
and no dropout; the peers are compiled and use sdpa attention. Hugging Face reads out every position;
clearhead reads out the masked ones, as it does in training.

    python benchmarks/encoder_gpu.py [--json FILE] [--parts bert vit]
    python benchmarks/encoder_gpu.py --device cpu --tiny          (a smoke test on the CPU)
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from measuring import OURS, Step, Turns, about, peak, table
from torch import Tensor, nn

from clearhead.data.batch import IGNORE_INDEX, TensorBatch
from clearhead.data.batching.masking import MaskedBatch, Masking, MaskingConfig
from clearhead.data.image_processor import ImageProcessor
from clearhead.models import Encoder, EncoderConfig, ViT, ViTConfig
from clearhead.models.heads import make_head
from clearhead.tasks.image_classification.data import ImageBatch
from clearhead.tasks.masked.loss import masked_loss
from clearhead.training import Trainer, TrainingConfig
from clearhead.training.optimizer import AdamWConfig
from clearhead.training.schedule import ConstantSchedule

LEARNING_RATE, DECAY, BETAS, EPSILON, CLIP_NORM = 1e-4, 0.01, (0.9, 0.98), 1e-6, 1.0
MASKED, MASK, CLASSES = 0.15, 4, 10


@dataclass(frozen=True)
class Shape:
    """The sizes of a model and its batches."""

    layers: int
    heads: int
    width: int
    rows: int
    positions: int
    """Tokens in a row, with the class token of an image."""
    vocabulary: int = 0
    image: int = 0
    patch: int = 0

    @property
    def ffn_width(self) -> int:
        return 4 * self.width

    @property
    def settings(self) -> dict[str, Any]:
        """What both of our models have in common with the peers'."""
        return {
            "layers": self.layers,
            "width": self.width,
            "ffn_width": self.ffn_width,
            "attention": {"heads": self.heads},
            "position": "learned",
            "activation": "gelu",
            "dropout": 0.0,
        }

    @property
    def peer_settings(self) -> dict[str, Any]:
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "intermediate_size": self.ffn_width,
            "num_attention_heads": self.heads,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "attn_implementation": "sdpa",
        }


BERT = Shape(12, 12, 768, rows=256, positions=128, vocabulary=30_522)
TINY_BERT = Shape(2, 2, 32, rows=4, positions=16, vocabulary=100)
VIT = Shape(12, 3, 192, rows=512, positions=65, image=32, patch=4)
TINY_VIT = Shape(2, 2, 32, rows=4, positions=5, image=8, patch=4)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments.add_argument("--tiny", action="store_true", help="tiny shapes, few steps")
    arguments.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    options = arguments.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        arguments.error("torch finds no GPU; --device cpu --tiny runs a smoke test")
    turns = Turns(torch.device(options.device), *((2, 1) if options.tiny else (5, 10)))
    torch.set_float32_matmul_precision("high")
    figures: dict[str, Any] = {"about": about(turns.device), "peak": peak(turns)}
    print(f"{figures['about']}; matrix products reach {figures['peak'] / 1e12:.0f} TFLOP/s\n", flush=True)
    for part in options.parts:
        figures[part] = PARTS[part](turns, options.tiny, figures["peak"])
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")


def bert(turns: Turns, tiny: bool, peak: float) -> dict:
    """Masked language modelling."""
    shape = TINY_BERT if tiny else BERT
    batch = masked_batch(shape)
    makers = {
        OURS: lambda: ours(turns, our_bert(shape), masked_loss, batch, shape.rows * shape.positions),
        "Hugging Face BERT, compiled": lambda: huggingface_bert(turns, shape, batch),
    }
    title = f"masked language model, {shape.rows} rows of {shape.positions} tokens"
    return table(title, turns, makers, peak, flops(shape) + 6.0 * MASKED * shape.vocabulary * shape.width)


def vit(turns: Turns, tiny: bool, peak: float) -> dict:
    """Image classification."""
    shape = TINY_VIT if tiny else VIT
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (shape.rows, 3, shape.image, shape.image), generator=random)
    classes = torch.randint(CLASSES, (shape.rows,), generator=random)
    batch = ImageBatch(pixels.to(torch.uint8), classes)
    processor = ImageProcessor(shape.image, labels=tuple(map(str, range(CLASSES))))

    def loss(model: ViT, batch: ImageBatch) -> Tensor:
        logits = model(processor.normalize(batch.pixels))
        return F.cross_entropy(logits.float(), batch.classes, reduction="sum")

    settings = {"patches": {"kind": "linear", "size": shape.patch}, "image_size": shape.image}
    config = ViTConfig.model_validate({**shape.settings, **settings})
    makers = {
        OURS: lambda: ours(turns, ViT.build(config, processor), loss, batch, shape.rows),
        "Hugging Face ViT, compiled": lambda: huggingface_vit(turns, shape, batch),
    }
    title = f"image classification, {shape.rows} images of {shape.image} pixels"
    return table(title, turns, makers, peak, flops(shape) * shape.positions, unit="images")


PARTS: dict[str, Callable[[Turns, bool, float], dict]] = {"bert": bert, "vit": vit}


def flops(shape: Shape) -> float:
    """Per token of the blocks, forward and backward: products with weights, and those of attention."""
    return shape.layers * (6.0 * 12 * shape.width**2 + 12.0 * shape.width * shape.positions)


def ours(
    turns: Turns,
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    batch: TensorBatch,
    count: int,
) -> Step:
    config = TrainingConfig(
        steps=1 << 40,
        schedule=ConstantSchedule(learning_rate=LEARNING_RATE),
        optimizer=AdamWConfig(weight_decay=DECAY, betas=BETAS, eps=EPSILON),
        clip_norm=CLIP_NORM,
        device=turns.device.type,
        precision="bf16",
    )
    batch = batch.pin() if turns.device.type == "cuda" else batch
    reports = Trainer(model, loss, config).steps(repeat(batch))

    def step() -> int:
        next(reports)
        return count

    return step


def our_bert(shape: Shape) -> Encoder:
    settings = {
        "norm_position": "post",
        "norm_epsilon": 1e-12,
        "embedding_norm": True,
        "token_types": 2,
        "max_length": shape.positions,
        "head": {"kind": "masked_tokens", "transform": True},
    }
    config = EncoderConfig.model_validate({**shape.settings, **settings})
    model = Encoder(config, shape.vocabulary)
    model.head = make_head(config.head, config.width, None, model)
    return model


def masked_batch(shape: Shape) -> MaskedBatch:
    """One text per row."""
    random = np.random.default_rng(0)
    ids = random.integers(MASK + 1, shape.vocabulary, (shape.rows, shape.positions), dtype=np.int32)
    masking = Masking(MaskingConfig(share=MASKED), MASK, np.ones(shape.vocabulary, dtype=np.bool_))
    hidden = masking.hide(ids, np.ones_like(ids, dtype=np.bool_), random)
    positions = np.broadcast_to(np.arange(shape.positions, dtype=np.int32), ids.shape)
    cells = np.stack([ids, np.ones_like(ids), positions])
    return MaskedBatch(torch.from_numpy(cells), torch.from_numpy(hidden))


def huggingface_bert(turns: Turns, shape: Shape, batch: MaskedBatch) -> Step:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        **shape.peer_settings, vocab_size=shape.vocabulary, max_position_embeddings=shape.positions
    )
    batch = batch.to(turns.device)
    tokens = batch.inputs.long()
    labels = torch.full_like(tokens, -100).scatter(
        1, batch.columns.long(), batch.labels.long().masked_fill(batch.labels == IGNORE_INDEX, -100)
    )
    inputs = {"input_ids": tokens, "labels": labels}
    return peer(turns, BertForMaskedLM(config), lambda model: model(**inputs).loss, tokens.numel())


def huggingface_vit(turns: Turns, shape: Shape, batch: ImageBatch) -> Step:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        **shape.peer_settings, image_size=shape.image, patch_size=shape.patch, num_labels=CLASSES
    )
    batch = batch.to(turns.device)

    def loss(model: nn.Module) -> Tensor:
        # Normalised on the device, as ours.
        return model(pixel_values=(batch.pixels.float() / 255 - 0.5) / 0.5, labels=batch.classes).loss

    return peer(turns, ViTForImageClassification(config), loss, shape.rows)


def peer(turns: Turns, model: Any, loss: Callable[[Any], Tensor], count: int) -> Step:
    """The usual step of a model of transformers."""
    model.to(turns.device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY, fused=True
    )
    compiled = torch.compile(model)

    def step() -> int:
        with torch.autocast(turns.device.type, torch.bfloat16):
            value = loss(compiled)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return count

    return step


if __name__ == "__main__":
    main()

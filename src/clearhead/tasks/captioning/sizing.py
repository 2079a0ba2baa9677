"""A recipe sized to captioned images: image size, model and length of the run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.config import apply_overrides, parse_settings
from clearhead.data.progress import ProgressCallback, ignore_progress
from clearhead.errors import DataError
from clearhead.layers.attention import AttentionConfig
from clearhead.layers.layout import Plain
from clearhead.layers.patches import ConvStemConfig
from clearhead.models import Captioner, CaptionerConfig, ViTConfig
from clearhead.models.heads import ClassifierConfig
from clearhead.tasks.captioning.data import Corpus
from clearhead.tasks.captioning.recipe import (
    CaptionBatching,
    CaptioningRecipe,
    CaptionsConfig,
    CaptionTraining,
)
from clearhead.tasks.sizing import EFFICIENCY, FittedRecipe, flops_per_second, steps_of, with_changes
from clearhead.text.tokenizer import SPECIAL_TOKENS, TokenizerConfig
from clearhead.training.schedule import CosineSchedule
from clearhead.wording import counted

# Fewer images than this teach nothing.
MIN_IMAGES = 20
# Fewer than this get the smaller model.
MANY_IMAGES = 3000
EPOCHS, BATCH_IMAGES = 100, 64
# A word that training sees less often is not worth an embedding.
MIN_COUNT = 3


@dataclass(frozen=True)
class FittedCaptions(FittedRecipe):
    """A recipe and the images that it is sized to."""

    recipe: CaptioningRecipe
    corpus: Corpus

    def choices(self) -> list[str]:
        """The choices, one per line."""
        corpus, model, run = self.corpus, self.recipe.model, self.recipe.training
        per_image = len(corpus.train.texts) / len(corpus.train)
        left_out = [f"left out: {corpus.left_out}"] if str(corpus.left_out) else []
        return [
            f"images: {len(corpus.train):,} to train on, {len(corpus.validation):,} for validation; "
            f"{per_image:.1f} captions each",
            *left_out,
            f"vocabulary: {self.recipe.tokenizer.vocabulary:,} words, lower-cased",
            f"model: {model.summary}, images of {model.encoder.image_size} pixels",
            f"run: {counted(run.steps, 'step')} of {self.recipe.batches.images} images, validated every "
            f"{run.validate_every:,}; the best model is kept",
        ]

    def seconds(self, device: torch.device) -> float:
        """The estimated time of the run."""
        recipe, encoder = self.recipe, self.recipe.model.encoder
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model = Captioner(recipe.model, recipe.tokenizer.vocabulary)
            pixels, ids = torch.empty(1, 3, encoder.image_size, encoder.image_size), torch.zeros(1, 1).long()
            encoded = model.encode(pixels)
            in_image = counter.get_total_flops()
            model.readout(model.decode(encoded, Plain(), ids))
        per_image = in_image + recipe.batches.row_length * (counter.get_total_flops() - in_image)
        # Forward and backward are three passes.
        total = 3 * per_image * recipe.batches.images * recipe.training.steps
        return total / (flops_per_second(device, recipe.model.width) * EFFICIENCY[device.type])


def fit_captions(
    paths: Sequence[str], changes: Sequence[str] = (), progress: ProgressCallback = ignore_progress
) -> FittedCaptions:
    """Reads the captions once and sizes a recipe to them; changes such as 'data.images=FOLDER' come first."""
    requested = apply_overrides({"data": {"captions": list(paths)}}, changes)
    data = parse_settings(CaptionsConfig, requested["data"], group="data")
    corpus = Corpus.read(data, seed=1)
    if len(corpus.train) < MIN_IMAGES:
        raise DataError(
            f"{' and '.join(paths)}: {counted(len(corpus.train), 'image')} with captions to train on, "
            f"{len(corpus.validation)} held out; a captioner needs at least {MIN_IMAGES} to train on, better "
            "thousands"
        )
    texts = corpus.train.texts
    lengths = np.array([len(text.split()) + 2 for text in texts])
    max_length = int(min(64, max(16, 1.2 * np.quantile(lengths, 0.99))))
    several = np.array([sum(len(text.split()) + 2 for text in one) for one in corpus.train.captions.values()])
    row_length = max(max_length, int(8 * np.ceil(np.quantile(several, 0.98) / 8)))
    size = min(BATCH_IMAGES, max(1, len(corpus.train) // 4))
    steps = steps_of(requested, max(200, EPOCHS * len(corpus.train) // size))
    every = max(20, steps // 20)
    recipe = CaptioningRecipe(
        data=data,
        tokenizer=TokenizerConfig(kind="word", vocabulary=_vocabulary(texts), lowercase=True),
        model=_model(len(corpus.train), max_length),
        batches=CaptionBatching(images=size, row_length=row_length),
        training=CaptionTraining(
            steps=steps,
            schedule=CosineSchedule(learning_rate=1e-3, warmup=max(1, steps // 20)),
            validate_every=every,
            save_every=every,
        ),
    )
    return FittedCaptions(with_changes(recipe, requested, changes), corpus)


def _model(images: int, max_length: int) -> CaptionerConfig:
    if images >= MANY_IMAGES:
        return CaptionerConfig(max_length=max_length)
    heads, head = AttentionConfig(heads=4), ClassifierConfig(pooling="mean")
    encoder = ViTConfig(
        image_size=64,
        patches=ConvStemConfig(channels=(16, 32, 64), convolutions=2),
        layers=2,
        width=128,
        ffn_width=256,
        attention=heads,
        dropout=0.1,
        head=head,
    )
    return CaptionerConfig(
        width=128, ffn_width=256, attention=heads, decoder_layers=1, encoder=encoder, max_length=max_length
    )


def _vocabulary(texts: Sequence[str]) -> int:
    """The number of words that occur often enough, and the special tokens."""
    counts = Counter(word for text in texts for word in text.lower().split())
    return max(20, min(10000, sum(count >= MIN_COUNT for count in counts.values()) + len(SPECIAL_TOKENS)))
